package controller

import (
	"context"
	"errors"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// retire takes a runner out of service that is idle or not yet started. Its registration goes first: GitHub refuses to delete
// one that has just been given a job, and so no job is ever killed by a drain.
func (c *Controller) retire(ctx context.Context, id, reason string) error {
	err := c.tryRetire(ctx, id, reason)
	if err != nil && !errors.Is(err, errHeld) && ctx.Err() == nil {
		c.log.Warn("cannot retire a runner yet; it is tried again", "runner", id, "reason", reason, "err", err)
	}
	return err
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
	if r.State == store.RunnerProvisioning && r.GitHubID == 0 {
		// Perhaps it is being minted right now: a row that is draining gets no create task, and so a registration that comes
		// after this is deleted by the one who minted it. One that came just before is seen here.
		if r, _, err = c.transition(ctx, r.ID, store.RunnerDraining, store.Change{Message: reason}); err != nil {
			return ignoreTransition(err)
		}
		if r.GitHubID == 0 {
			return c.removeWorkload(ctx, r)
		}
	}
	free, err := c.leave(ctx, r, reason)
	if err != nil || free {
		return err
	}
	return c.keepBusy(ctx, r)
}

// leave takes a runner away whose job, if it had one, is over as far as we know. Its registration goes first: GitHub refuses that for
// one that is executing after all, which is then not free and stays.
func (c *Controller) leave(ctx context.Context, r store.Runner, why string) (free bool, err error) {
	gone, err := c.deregister(ctx, r)
	if errors.Is(err, github.ErrRunnerBusy) {
		c.log.Info("keeping a runner: GitHub says that it is busy", "runner", r.ID)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if gone {
		if err := c.store.SetRunnerDeregistered(ctx, r.ID); err != nil {
			return false, err
		}
	}
	if r, _, err = c.transition(ctx, r.ID, store.RunnerDraining, store.Change{Message: why}); err != nil {
		return true, ignoreTransition(err)
	}
	return true, c.removeWorkload(ctx, r)
}

// keepBusy records that GitHub gave a runner a job in the moment of its retirement. The row may still say that it is starting.
func (c *Controller) keepBusy(ctx context.Context, r store.Runner) error {
	if r.State == store.RunnerDraining {
		return nil // it is told to go, and may finish its job first
	}
	if r.State == store.RunnerProvisioning {
		if _, _, err := c.transition(ctx, r.ID, store.RunnerRegistering, store.Change{}); err != nil {
			return ignoreTransition(err)
		}
	}
	_, _, err := c.transition(ctx, r.ID, store.RunnerBusy, store.Change{Message: "GitHub gave it a job while it was being retired"})
	return ignoreTransition(err)
}

// ignoreTransition drops the error of a move that the state machine does not allow: the row has moved on, which was logged.
func ignoreTransition(err error) error {
	if errors.Is(err, store.ErrTransition) {
		return nil
	}
	return err
}

// removeWorkload sees to it that a runner's workload goes, or is never made. The row must have left provisioning, so
// that no create task can be written any more.
func (c *Controller) removeWorkload(ctx context.Context, r store.Runner) error {
	rm, err := c.queue.EnqueueRemove(ctx, r)
	if err != nil || !rm.Gone {
		return err
	}
	return c.workloadGone(ctx, r.ID) // its host has said so, and that is being recorded or was cut short; or it never had it
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
	if r.GitHubID == 0 && r.Ephemeral {
		return false, nil // never minted, as far as anybody knows
	}
	api, in, err := c.github(ctx, r.InstallationID)
	if err != nil {
		return false, err
	}
	sc := scope(in, r.Repository)
	if r.GitHubID == 0 {
		// One that registered with a token told nobody its number.
		reg, err := api.FindRunner(ctx, sc, r.Name)
		if errors.Is(err, github.ErrNotFound) {
			return r.State == store.RunnerFailed || r.State == store.RunnerRemoved, nil // a starting one may yet register
		}
		if err != nil {
			return false, c.githubErr(ctx, in, err)
		}
		r.GitHubID = reg.ID
	}
	if err := api.DeleteRunner(ctx, sc, r.GitHubID); err != nil {
		if errors.Is(err, github.ErrRunnerBusy) {
			return false, err
		}
		return false, c.githubErr(ctx, in, err)
	}
	return true, nil
}
