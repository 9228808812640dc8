package controller

import (
	"context"
	"errors"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// retire takes a runner out of service that is idle or not yet started. Its registration goes first: GitHub refuses to delete
// one that has just been given a job, and so no job is ever killed by a drain.
func (c *Controller) retire(ctx context.Context, id, reason string) {
	if err := c.tryRetire(ctx, id, reason); err != nil && ctx.Err() == nil {
		c.log.Warn("cannot retire a runner yet; the next pass tries again", "runner", id, "reason", reason, "err", err)
	}
}

func (c *Controller) tryRetire(ctx context.Context, id, reason string) error {
	r, err := c.store.Runner(ctx, id)
	if err != nil {
		return err
	}
	switch r.State {
	case store.RunnerProvisioning, store.RunnerRegistering, store.RunnerIdle:
	default:
		return nil
	}
	gone, err := c.deregister(ctx, r)
	if errors.Is(err, github.ErrRunnerBusy) {
		c.log.Info("keeping a runner that was given a job in the moment of its retirement", "runner", r.ID)
		_, _, err = c.transition(ctx, r.ID, store.RunnerBusy, store.Change{Message: "GitHub gave it a job while it was being retired"})
		if errors.Is(err, store.ErrTransition) {
			return nil // still provisioning: its agent's report comes first
		}
		return err
	}
	if err != nil {
		return err
	}
	if gone {
		if err := c.store.SetRunnerDeregistered(ctx, r.ID); err != nil {
			return err
		}
	}
	if _, _, err := c.transition(ctx, r.ID, store.RunnerDraining, store.Change{Message: reason}); err != nil {
		return err
	}
	return c.removeWorkload(ctx, r)
}

// removeWorkload sees to it that a runner's workload goes, or is never made. The row must have left provisioning, so
// that no create task can be written any more.
func (c *Controller) removeWorkload(ctx context.Context, r store.Runner) error {
	if _, err := c.store.CancelTasks(ctx, r.ID, string(protocol.TaskCreate)); err != nil {
		return err
	}
	ts, err := c.store.Tasks(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, t := range ts {
		if t.Kind == string(protocol.TaskCreate) && t.Attempt > 0 {
			_, _, err := c.queue.Enqueue(ctx, r.HostID, protocol.Task{Kind: protocol.TaskRemove, RunnerID: r.ID})
			return err
		}
	}
	return c.workloadGone(ctx, r.ID) // no create was ever handed out
}

// workloadGone records that nothing of a runner is left on its host, which ends its draining.
func (c *Controller) workloadGone(ctx context.Context, id string) error {
	if err := c.store.SetRunnerCleaned(ctx, id); err != nil {
		return err
	}
	r, err := c.store.Runner(ctx, id)
	if err != nil {
		return err
	}
	if r.State == store.RunnerFailed || r.State == store.RunnerRemoved {
		c.cleanup.Set()
		return nil
	}
	_, _, err = c.transition(ctx, id, store.RunnerRemoved, store.Change{})
	return err
}

// deregister deletes a runner's registration. It says whether that is now known to be gone.
func (c *Controller) deregister(ctx context.Context, r store.Runner) (bool, error) {
	if r.Deregistered {
		return true, nil
	}
	if r.GitHubID == 0 {
		return false, nil
	}
	api, in, err := c.github(ctx, r.InstallationID)
	if err != nil {
		return false, err
	}
	p, err := c.store.Pool(ctx, r.PoolID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if err := api.DeleteRunner(ctx, scope(in, p.Repository), r.GitHubID); err != nil {
		if errors.Is(err, github.ErrRunnerBusy) {
			return false, err
		}
		return false, c.githubErr(ctx, in, err)
	}
	return true, nil
}
