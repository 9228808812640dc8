package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// recover finishes what an earlier run of the controller had begun: an answer to a create was written down, and what
// follows from it was not. The agent, having been answered, or being gone too, never repeats it. What was wrong with hosts is said again.
func (c *Controller) recover(ctx context.Context) error {
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the hosts of an earlier controller: %w", err)
	}
	c.judgeHosts(hosts)
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerProvisioning}})
	if err != nil {
		return fmt.Errorf("cannot read the runners that an earlier controller left: %w", err)
	}
	for _, r := range rows {
		ts, err := c.store.Tasks(ctx, r.ID)
		if err != nil {
			return fmt.Errorf("cannot read the tasks that an earlier controller left: %w", err)
		}
		for _, t := range ts {
			if t.Kind != string(createKind) || t.State != store.TaskDone && t.State != store.TaskFailed {
				continue
			}
			c.log.Info("finishing a create that an earlier controller left", "runner", r.ID, "task", t.ID, "state", t.State)
			if t.State == store.TaskDone {
				err = c.created(ctx, t, true, "", store.Change{})
			} else {
				// Answered, or given up by everybody: that no workload is left is not certain, so it is cleaned up after.
				err = c.failRunner(ctx, r.ID, t.Result)
			}
			if err != nil && !errors.Is(err, store.ErrTransition) {
				return fmt.Errorf("cannot finish the create of runner %s: %w", r.ID, err)
			}
		}
	}
	return nil
}
