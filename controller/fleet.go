package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Look has the loops look at the rows again: somebody else has changed them.
func (c *Controller) Look() {
	c.reconcile.Set()
	c.provision.Set()
	c.cleanup.Set()
	c.poll.Set()
}

// ApplySettings takes over those settings that count at once, which are written already.
func (c *Controller) ApplySettings(ctx context.Context) error {
	if c.reload == nil {
		return nil
	}
	s, err := c.reload(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the settings anew: %w", err)
	}
	c.Apply(s)
	return nil
}

// The words for how a host is.
const (
	HostHealthy   = "healthy"
	HostUnhealthy = "unhealthy" // its agent has missed its heartbeats: nothing is placed there
	HostLost      = "lost"      // silent for so long that its runners were given up
	HostJoining   = "joining"   // it has joined, and its agent has not been heard from since
)

// HostHealth says how a host is.
func (c *Controller) HostHealth(h store.Host) string {
	timeout := c.settings().Scheduler.HeartbeatTimeout
	if timeout <= 0 {
		timeout = scheduler.HeartbeatTimeout
	}
	switch {
	case !h.LostAt.IsZero():
		return HostLost
	case c.now().Sub(h.LastHeartbeatAt) >= timeout:
		return HostUnhealthy
	case h.LastHeartbeatAt.Equal(h.JoinedAt):
		return HostJoining
	}
	return HostHealthy
}

// Explain says why a job waits, going by the fleet as it is now.
func (c *Controller) Explain(ctx context.Context, jobID string) (scheduler.Explanation, error) {
	snap, err := c.snapshot(ctx)
	if err != nil {
		return scheduler.Explanation{}, err
	}
	return scheduler.Explain(snap, jobID), nil
}

// StopRunner tells a runner to take no more work: it goes at once if it has no job, else when its job is done or DrainGrace is over.
// store.ErrTransition says that it has ended already. Asked again, it changes nothing.
func (c *Controller) StopRunner(ctx context.Context, id, why string) error {
	if _, err := c.drainRunner(ctx, id, why); err != nil {
		return err
	}
	c.drains.Set()
	return nil
}

// drainRunner records that a runner is told to go. What follows from it is endDrains': a registration goes before its runner does, and
// GitHub refuses that of one that has just been given a job, which then counts as busy.
func (c *Controller) drainRunner(ctx context.Context, id, why string) (store.Runner, error) {
	r, changed, err := c.tryTransition(ctx, id, store.RunnerDraining, store.Change{Message: why})
	if changed {
		c.drains.Set()
	}
	return r, err
}

// RerunJob asks GitHub to run a job again. While GitHub has asked us to wait, the error is a *github.LimitError.
func (c *Controller) RerunJob(ctx context.Context, j store.Job) error {
	return c.askGitHub(ctx, j, func(api github.API) error { return api.RerunJob(ctx, j.Repository, j.GitHubID) })
}

// CancelRun asks GitHub to cancel the workflow run of a job. While GitHub has asked us to wait, the error is a *github.LimitError.
func (c *Controller) CancelRun(ctx context.Context, j store.Job) error {
	return c.askGitHub(ctx, j, func(api github.API) error { return api.CancelRun(ctx, j.Repository, j.RunID) })
}

func (c *Controller) askGitHub(ctx context.Context, j store.Job, ask func(github.API) error) error {
	in, err := c.store.Installation(ctx, j.InstallationID)
	if err != nil {
		return fmt.Errorf("cannot read the installation of job %s: %w", j.ID, err)
	}
	if github.Held(c.now(), in.HoldUntil) {
		return &github.LimitError{Until: in.HoldUntil, Reason: in.HoldReason}
	}
	api, err := c.clients.get(in)
	if err != nil {
		return err
	}
	err = ask(api)
	c.noteGitHub(store.WithoutAudit(ctx), in, err)
	return err
}

// Started is when this controller was started.
func (c *Controller) Started() time.Time { return c.started }
