package agent

import (
	"context"
	"errors"
)

// Serve runs an agent until ctx ends, and a new one whenever the controller, having forgotten the
// host, has taken it in again under another ID. It returns what Run returns otherwise. Runners
// are left running in between; those of the forgotten host are told of to the controller, which disowns them.
func Serve(ctx context.Context, cfg Config) error {
	pace := newRetry(RetryMin, RetryMax) // should a controller never settle on an ID
	for {
		a, err := New(cfg)
		if err != nil {
			return err
		}
		if err := a.Run(ctx); !errors.Is(err, ErrHostChanged) {
			return err
		} else if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		wait := pace.next()
		a.log.Warn("starting again as another host", "host", a.HostID(), "in", wait)
		if !sleep(ctx, wait) {
			return nil
		}
	}
}
