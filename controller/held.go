package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// unheldGrace is how long a runner that was started may be missing from what its host says it holds.
const unheldGrace = time.Minute

// noteHeld gives up runners that were started on a host and that the host, having counted, does not have: somebody removed
// their containers while no agent was there to see it, and so nobody will ever report their end.
func (c *Controller) noteHeld(ctx context.Context, h store.Host, holds []string) error {
	rows, err := c.store.Runners(ctx, store.RunnerFilter{HostID: h.ID, Live: true})
	if err != nil {
		return err
	}
	held := make(map[string]bool, len(holds))
	for _, id := range holds {
		held[id] = true
	}
	var errs []error
	for _, r := range rows {
		if held[r.ID] || r.State == store.RunnerProvisioning || c.now().Sub(r.StateAt) < unheldGrace {
			continue
		}
		if r.State == store.RunnerDraining {
			errs = append(errs, ignoreTransition(c.workloadGone(ctx, r.ID)))
			continue
		}
		errs = append(errs, c.loseRunner(ctx, r, h))
	}
	return errors.Join(errs...)
}

func (c *Controller) loseRunner(ctx context.Context, r store.Runner, h store.Host) error {
	if err := c.store.SetRunnerCleaned(ctx, r.ID); err != nil {
		return err
	}
	return ignoreTransition(c.failRunner(ctx, r.ID, fmt.Sprintf("host %s has nothing of it any more: its workload was removed by somebody else", h.Name)))
}
