package agent

import (
	"context"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// watchLoop rings the sweep whenever a backend says that a workload changed. A stream that
// breaks is opened again; what was lost meanwhile the sweep finds anyway.
func (a *Agent) watchLoop(ctx context.Context, b backend.Backend) {
	retry := newRetry(RetryMin, RetryMax)
	for ctx.Err() == nil {
		events, err := b.Watch(ctx)
		if err == nil {
			a.sweepNow.up() // something may have changed while nobody listened
			for range events {
				retry.reset()
				a.sweepNow.up()
			}
		}
		wait := retry.next()
		if ctx.Err() == nil {
			a.log.Debug("the backend's events broke off", "backend", b.Name(), "error", err, "again_in", wait)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}
