package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// jobUpdate is what GitHub says of a job, in the store's terms. asked is true when we asked just now.
func jobUpdate(installationID string, s github.JobState, asked bool) store.JobUpdate {
	return store.JobUpdate{
		InstallationID: installationID, GitHubID: s.GitHubID, RunID: s.RunID, RunAttempt: s.RunAttempt, Repository: s.Repository,
		Workflow: s.Workflow, Name: s.Name, Labels: s.Labels, State: jobState(s.Status), Conclusion: s.Conclusion, RunnerName: s.RunnerName,
		HTMLURL: s.HTMLURL, QueuedAt: s.CreatedAt, StartedAt: s.StartedAt, CompletedAt: s.CompletedAt, Authoritative: asked,
	}
}

// jobState maps GitHub's status. What is neither running nor over nor ready to run waits.
func jobState(status string) store.JobState {
	switch st := store.JobState(status); st {
	case store.JobQueued, store.JobInProgress, store.JobCompleted:
		return st
	default: // waiting, pending, requested
		return store.JobWaiting
	}
}

// learnJob takes in what GitHub says of a job when we asked. It says whether that was news.
func (c *Controller) learnJob(ctx context.Context, installationID string, s github.JobState) (bool, error) {
	u := jobUpdate(installationID, s, true)
	defer c.links.begin(u)()
	ch, err := c.store.UpsertJob(ctx, u)
	if err != nil {
		c.reconcile.Set() // a decision may have counted on it
		return false, fmt.Errorf("cannot record job %d of %s: %w", s.GitHubID, s.Repository, err)
	}
	return ch.Changed, c.jobMoved(ctx, ch)
}

// jobMoved does what follows from what was just said of a job, whether that was news or not: a repeated word may be the
// first that names a runner.
func (c *Controller) jobMoved(ctx context.Context, ch store.JobChange) error {
	j := ch.Job
	if ch.Changed {
		c.log.Info("job "+string(j.State), "job", j.ID, "github", j.GitHubID, "repository", j.Repository, "name", j.Name, "runner", j.RunnerName, "conclusion", j.Conclusion)
		c.bus.Publish(events.JobChanged, j.ID)
		c.reconcile.Set()
		if j.State == store.JobCompleted {
			c.metrics.Inc(metrics.JobsCompleted, j.Conclusion)
		}
	}
	if j.State != store.JobInProgress && j.State != store.JobCompleted {
		return nil
	}
	if err := c.linkRunner(ctx, j); err != nil || j.State != store.JobCompleted {
		return err
	}
	return c.freeRunner(ctx, j)
}

// freeRunner makes a runner idle again that takes one job after the other. An ephemeral one ends with its job.
func (c *Controller) freeRunner(ctx context.Context, j store.Job) error {
	if j.RunnerID == "" {
		return nil
	}
	r, err := c.store.Runner(ctx, j.RunnerID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || r.Ephemeral || r.State != store.RunnerBusy || r.JobID != j.ID {
		return err
	}
	_, _, err = c.transition(ctx, r.ID, store.RunnerIdle, store.Change{})
	return ignoreTransition(err)
}

// linkRunner ties a job to the runner that GitHub says executes it, when that is one of ours.
func (c *Controller) linkRunner(ctx context.Context, j store.Job) error {
	if j.RunnerID != "" || !strings.HasPrefix(j.RunnerName, namePrefix(c.fleet)) {
		return nil
	}
	r, err := c.store.RunnerByName(ctx, j.RunnerName)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, moved, err := c.store.AssignJob(ctx, j.ID, r.ID)
	if err != nil {
		return fmt.Errorf("cannot link job %s to runner %s: %w", j.ID, r.ID, err)
	}
	c.poolWorks(r.PoolID)
	if c.exits.settle(c.now(), func(d doubt) bool { return d.runner.ID == r.ID }) {
		c.reconcile.Set() // it ran this job, and so the one it was made for waits still
	}
	if moved {
		c.log.Info("runner busy", "runner", r.ID, "job", j.ID)
		c.runnerMoved(ctx, r)
	}
	return nil
}
