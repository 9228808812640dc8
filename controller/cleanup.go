package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// cleanupLoop works until nothing is left of an ended runner: no registration at GitHub, no workload on its host.
// What could not be cleaned now is tried again on the housekeeping tick.
func (c *Controller) cleanupLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, c.cleanup.C(), func(ctx context.Context) {
		rows, err := c.store.Runners(ctx, store.RunnerFilter{NeedsCleanup: true})
		if err != nil {
			if ctx.Err() == nil {
				c.log.Error("cannot read the runners that need cleaning up", "err", err)
			}
			return
		}
		for _, r := range rows {
			c.spawn(ctx, c.cleaning, r.InstallationID, r.ID, func(ctx context.Context) error {
				err := c.cleanRunner(ctx, r.ID)
				if err != nil && !errors.Is(err, errHeld) && ctx.Err() == nil {
					c.log.Warn("cannot clean up after a runner yet", "runner", r.ID, "err", err)
				}
				return err
			})
		}
	})
}

func (c *Controller) cleanRunner(ctx context.Context, id string) error {
	r, err := c.store.Runner(ctx, id) // again: the list may be older than an earlier clean-up
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	if !r.Cleaned {
		errs = append(errs, c.cleanWorkload(ctx, r))
	}
	if !r.Deregistered {
		errs = append(errs, c.cleanRegistration(ctx, r))
	}
	return errors.Join(errs...)
}

func (c *Controller) cleanWorkload(ctx context.Context, r store.Runner) error {
	h, err := c.store.Host(ctx, r.HostID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c.store.SetRunnerCleaned(ctx, r.ID) // its host was deleted, and everything on it with it
	case err != nil:
		return err
	case !h.LostAt.IsZero():
		return nil // asked again when it is back
	}
	return c.removeWorkload(ctx, r)
}

func (c *Controller) cleanRegistration(ctx context.Context, r store.Runner) error {
	switch {
	case r.Ephemeral && r.GitHubID == 0:
		// Never minted, as far as anybody knows. Should the answer to a mint have been lost, the reap finds it.
	case r.Ephemeral && !r.BusyAt.IsZero() && r.ExitCode != nil && *r.ExitCode == 0:
		// It ran its one job to the end: GitHub has deleted the registration itself.
	default:
		if _, err := c.deregister(ctx, r); err != nil {
			return fmt.Errorf("the registration of runner %s stays for now: %w", r.Name, err)
		}
	}
	return c.store.SetRunnerDeregistered(ctx, r.ID)
}

// taskRequeued counts a task that is offered again.
func (c *Controller) taskRequeued(t store.Task) { c.metrics.Inc(metrics.TasksRequeued, t.Kind) }

// taskDropped deals with a task that no offer got done. Nobody answered, so a workload may exist: a runner that is given up here is
// still cleaned up after. A lost remove is asked for again by the clean-up.
func (c *Controller) taskDropped(t store.Task) {
	c.metrics.Inc(metrics.TasksDropped, t.Kind)
	var what string
	switch protocol.TaskKind(t.Kind) {
	case protocol.TaskCreate:
		what = "start"
	case protocol.TaskStop:
		what = "stop"
	case protocol.TaskStreamLogs:
		c.relay.Fail(t.RunnerID, relay.End{Reason: relay.Failed, Message: "The runner's host did not answer in time. Is its agent well? Watch again."})
		return
	default:
		c.cleanup.Set()
		return
	}
	ctx := context.Background()
	why := fmt.Sprintf("its host did not answer %d requests to %s it", t.Attempt, what)
	if err := c.failRunner(ctx, t.RunnerID, why); err != nil && !errors.Is(err, store.ErrTransition) {
		c.log.Error("cannot fail a runner whose host does not answer", "runner", t.RunnerID, "err", err)
	}
}
