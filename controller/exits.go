package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A runner that ends well without a known job has either run one whose deliveries are late or lost, or it has ended for
// nothing. GitHub is asked which: until it answers, the job that the runner was made for gets no second one, and a pool
// whose runners keep ending for nothing is made to wait.

const (
	// doubtLimit is how long a job may stand aside while GitHub is asked about it.
	doubtLimit = 15 * time.Second
	// briefLife is how soon after its start a runner ends that cannot have waited for a job in vain.
	briefLife = time.Minute
	// idleExitsBorne is how many runners of a pool in a row may end soon and for nothing before the pool waits.
	idleExitsBorne = 2
)

// doubt is a job whose runner has ended without anybody having said that it ran it.
type doubt struct {
	job    store.Job
	runner store.Runner
	since  time.Time
	// settled is when the doubt ended; zero while it lasts.
	settled time.Time
}

type strikes struct {
	n     int
	until time.Time
}

type exits struct {
	wake events.Wake

	mu     sync.Mutex
	doubts map[string]doubt   // by job
	pools  map[string]strikes // by pool
}

func newExits() *exits {
	return &exits{wake: events.NewWake(), doubts: map[string]doubt{}, pools: map[string]strikes{}}
}

// aside are the jobs that stand aside in a decision that began then, and the pools whose runners it must leave alone: with one of
// their jobs hidden, they may seem to have a runner too many. What was settled after the decision began counts still.
func (e *exits) aside(began, now time.Time) (jobs, pools map[string]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	jobs, pools = map[string]bool{}, map[string]bool{}
	for id, d := range e.doubts {
		if d.settled.IsZero() && now.Sub(d.since) < doubtLimit || !d.settled.Before(began) {
			jobs[id], pools[d.runner.PoolID] = true, true
		}
	}
	return jobs, pools
}

// open are the doubts that are not settled.
func (e *exits) open() []doubt {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]doubt, 0, len(e.doubts))
	for _, d := range e.doubts {
		if d.settled.IsZero() {
			out = append(out, d)
		}
	}
	return out
}

// settle ends the doubts that match, and forgets those that were ended a while ago. It says whether any did.
func (e *exits) settle(now time.Time, match func(doubt) bool) (ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, d := range e.doubts {
		switch {
		case d.settled.IsZero() && match(d):
			d.settled, ended = now, true
			e.doubts[id] = d
		case !d.settled.IsZero() && now.Sub(d.settled) > doubtLimit:
			delete(e.doubts, id)
		}
	}
	return ended
}

// heldUntil is until when a pool waits because its runners end for nothing; zero if it does not.
func (e *exits) heldUntil(poolID string, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.pools[poolID]; now.Before(s.until) {
		return s.until
	}
	return time.Time{}
}

// worked notes that a runner of the pool has got a job.
func (e *exits) worked(poolID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pools, poolID)
}

// strike notes that a runner of the pool has ended for nothing. It returns until when the pool waits, zero if it need not yet.
func (e *exits) strike(poolID string, now time.Time, set scheduler.Tunables) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.pools[poolID]
	s.n++
	if s.n > idleExitsBorne {
		wait := set.StartBackoff
		for range s.n - idleExitsBorne - 1 {
			wait = min(2*wait, set.MaxStartBackoff)
		}
		s.until = now.Add(wait)
	}
	e.pools[poolID] = s
	return s.until
}

// noteExit is told of a runner that is about to be recorded as having ended well. It puts the job that it was made for
// in doubt when that still waits as far as anybody knows.
func (c *Controller) noteExit(ctx context.Context, r store.Runner) error {
	if !r.Ephemeral || r.JobID != "" || r.DemandJobID == "" || !r.BusyAt.IsZero() || r.State == store.RunnerDraining || r.Deregistered {
		return nil
	}
	j, err := c.owed(ctx, r)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.State != store.JobQueued {
		return nil
	}
	if err != nil {
		return err
	}
	c.exits.mu.Lock()
	c.exits.doubts[j.ID] = doubt{job: j, runner: r, since: c.now()}
	c.exits.mu.Unlock()
	c.exits.wake.Set()
	return nil
}

// swapsFollowed bounds how far owed looks.
const swapsFollowed = 8

// owed is the job that a runner has most likely run, when nobody has said which: the one it was made for, or, since runners are
// fungible, when that one went to another runner, the job that the other one was made for, and so on.
func (c *Controller) owed(ctx context.Context, r store.Runner) (store.Job, error) {
	j, err := c.store.Job(ctx, r.DemandJobID)
	for range swapsFollowed {
		if err != nil || j.State == store.JobQueued || j.RunnerID == "" || j.RunnerID == r.ID {
			break
		}
		var other store.Runner
		if other, err = c.store.Runner(ctx, j.RunnerID); err != nil || other.DemandJobID == "" || other.DemandJobID == j.ID {
			break
		}
		j, err = c.store.Job(ctx, other.DemandJobID)
	}
	return j, err
}

// exitsLoop asks GitHub about jobs in doubt.
func (c *Controller) exitsLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, c.exits.wake.C(), func(ctx context.Context) {
		for _, d := range c.exits.open() {
			c.spawn(ctx, c.asking, d.job.InstallationID, d.job.ID, func(ctx context.Context) error {
				err := c.settleDoubt(ctx, d)
				c.exits.settle(c.now(), func(x doubt) bool { return x.job.ID == d.job.ID })
				c.reconcile.Set()
				if err != nil && !errors.Is(err, errHeld) && ctx.Err() == nil {
					c.log.Warn("cannot ask GitHub what became of a job", "job", d.job.ID, "err", err)
				}
				return nil // what could not be asked is found by the check of silent jobs
			})
		}
	})
}

func (c *Controller) settleDoubt(ctx context.Context, d doubt) error {
	api, in, err := c.github(ctx, d.job.InstallationID)
	if err != nil {
		return err
	}
	s, err := api.Job(ctx, d.job.Repository, d.job.GitHubID)
	if err != nil {
		return c.githubErr(ctx, in, err)
	}
	if _, err := c.learnJob(ctx, in.ID, s); err != nil {
		return err
	}
	if jobState(s.Status) != store.JobQueued || c.now().Sub(d.runner.StateAt) > briefLife {
		return nil
	}
	c.struck(ctx, d.runner)
	return nil
}

// struck notes that a runner took no job at all, or one that is not ours to know of.
func (c *Controller) struck(ctx context.Context, r store.Runner) {
	until := c.exits.strike(r.PoolID, c.now(), c.settings().Scheduler)
	c.log.Warn("a runner ended soon and without the job that it was made for", "runner", r.ID, "pool", r.PoolID)
	if until.IsZero() {
		return
	}
	pool := c.poolName(ctx, r.PoolID)
	c.problems.Raise(r.PoolID, problems.Problem{
		Code:  problems.IdleExits,
		Title: fmt.Sprintf("The runners of pool %s end without taking a job", pool),
		Why:   fmt.Sprintf("More than %d runners in a row ended within %s of their start while the jobs they were made for still wait. The pool waits before it starts more.", idleExitsBorne, briefLife),
		Fix:   "Look at the log of the last runner. Is " + r.Image + " a runner image, and does its runner group serve these repositories? Do other repositories take the runners?",
	})
}

// poolWorks is told that a runner of the pool has got a job: whatever kept its runners from that is over.
func (c *Controller) poolWorks(poolID string) {
	c.exits.worked(poolID)
	c.problems.Clear(problems.IdleExits, poolID)
	c.problems.Clear(problems.RunnerVersion, poolID)
}
