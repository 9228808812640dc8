package controller

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// reconcileLoop decides and applies, one pass at a time.
func (c *Controller) reconcileLoop(ctx context.Context) {
	timer := time.NewTimer(c.settings().Tick)
	defer timer.Stop()
	for {
		select {
		case <-c.reconcile.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		next, err := c.pass(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Error("reconcile pass failed", "err", err)
		}
		timer.Reset(next)
	}
}

// pass makes one decision and applies it. It returns when to look again at the latest.
func (c *Controller) pass(ctx context.Context) (time.Duration, error) {
	c.passMu.Lock()
	defer c.passMu.Unlock()
	if c.stoodDown.Load() {
		return c.settings().Tick, nil
	}
	start := c.now()
	snap, err := c.snapshot(ctx)
	if err != nil {
		return c.settings().Tick, err
	}
	plan := scheduler.Decide(snap)
	err = c.apply(ctx, snap, plan)
	c.noteWaiting(plan)
	c.observe(snap, plan)
	c.say(snap, plan)
	if c.rented != nil {
		c.rented.Wake()
	}
	c.metrics.Observe(metrics.ReconcileSeconds, c.now().Sub(start))
	return c.nextLook(snap, plan), err
}

// nextLook is the tick, or sooner when a backoff, a hold or a delay ends before it.
func (c *Controller) nextLook(snap scheduler.Snapshot, plan scheduler.Plan) time.Duration {
	next := c.settings().Tick
	sooner := func(at time.Time) {
		if d := at.Sub(snap.Now); d > 0 && d < next {
			next = d + time.Millisecond
		}
	}
	for _, d := range plan.Pools {
		if d.Blocked != nil {
			sooner(d.Blocked.Until)
		}
	}
	for _, p := range snap.Pools {
		if p.ScaleUpDelay == 0 {
			continue
		}
		for _, j := range snap.Jobs {
			if j.State == string(store.JobQueued) {
				sooner(j.QueuedAt.Add(p.ScaleUpDelay))
			}
		}
	}
	return next
}

// apply carries a plan out. What fails is logged and planned again by the next pass.
func (c *Controller) apply(ctx context.Context, snap scheduler.Snapshot, plan scheduler.Plan) error {
	installation := map[string]string{} // by pool
	for _, p := range snap.Pools {
		installation[p.ID] = p.Installation
	}
	_, doubtful := c.exits.aside(snap.Now, c.now())
	var creates []scheduler.Action
	var errs []error
	for _, a := range plan.Actions {
		var err error
		switch a.Kind {
		case scheduler.Remove:
			_, _, err = c.transition(ctx, a.RunnerID, store.RunnerRemoved, store.Change{})
		case scheduler.Fail:
			err = c.failRunner(ctx, a.RunnerID, a.Reason)
		case scheduler.Retire, scheduler.Withdraw:
			if doubtful[a.PoolID] {
				continue // planned again when it is known what became of the pool's jobs
			}
			c.spawn(ctx, c.retiring, installation[a.PoolID], a.RunnerID, func(ctx context.Context) error { return c.retire(ctx, a.RunnerID, a.Reason) })
		case scheduler.Drain:
			_, err = c.drainRunner(ctx, a.RunnerID, a.Reason)
			err = ignoreTransition(err)
		case scheduler.Create:
			creates = append(creates, a)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot %s runner %s: %w", a.Kind, a.RunnerID, err))
		}
	}
	if err := c.create(ctx, creates); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// create writes the rows of new runners and wakes the loop that mints their registrations: the row exists
// before anything else does.
func (c *Controller) create(ctx context.Context, actions []scheduler.Action) error {
	if len(actions) == 0 {
		return nil
	}
	byID := map[string]store.Pool{}
	pools, err := c.store.Pools(ctx)
	if err != nil {
		return fmt.Errorf("cannot read pools: %w", err)
	}
	for _, p := range pools {
		byID[p.ID] = p
	}
	var rows []store.Runner
	for _, a := range actions {
		p, ok := byID[a.PoolID]
		if !ok {
			continue // deleted since the snapshot
		}
		id := store.NewID("run_")
		image, _ := runnerImage(p) // judgeImages says what is wrong with it
		rows = append(rows, store.Runner{
			ID: id, Name: runnerName(c.fleet, p.Name, id), PoolID: p.ID, HostID: a.HostID, InstallationID: p.InstallationID, Repository: p.Repository,
			Backend: p.Backend, Image: image, State: store.RunnerProvisioning, Reason: a.Reason, DemandJobID: a.JobID,
			Ephemeral: p.Ephemeral, CPUs: p.CPUs, MemoryMB: p.MemoryMB,
		})
		c.log.Info("creating a runner", "runner", id, "pool", p.Name, "host", a.HostID, "job", a.JobID, "reason", a.Reason)
	}
	if err := c.store.CreateRunners(ctx, rows); err != nil {
		return fmt.Errorf("cannot write %d new runners: %w", len(rows), err)
	}
	c.provision.Set()
	for _, r := range rows {
		c.metrics.Inc(metrics.RunnersCreated, byID[r.PoolID].Name)
		c.bus.Publish(events.RunnerChanged, r.ID)
	}
	return nil
}

// maxRunnerName is GitHub's limit on a runner's name.
const maxRunnerName = 64

var notNameChar = regexp.MustCompile(`[^a-z0-9.-]+`)

// namePrefix is what every runner name of this fleet begins with.
func namePrefix(fleet string) string { return "zoomies-" + fleet + "-" }

// runnerName is unique, and says whose it is: the fleet's prefix, the pool, and the random part of the runner's ID.
func runnerName(fleet, pool, id string) string {
	suffix := "-" + strings.TrimPrefix(id, "run_")
	room := maxRunnerName - len(namePrefix(fleet)) - len(suffix)
	p := strings.Trim(notNameChar.ReplaceAllString(strings.ToLower(pool), "-"), "-")
	return namePrefix(fleet) + p[:min(len(p), room)] + suffix
}

// transition moves a runner, tells everybody, and counts its end. A move that the state machine does not allow is logged.
func (c *Controller) transition(ctx context.Context, id string, to store.RunnerState, ch store.Change) (store.Runner, bool, error) {
	r, changed, err := c.tryTransition(ctx, id, to, ch)
	if errors.Is(err, store.ErrTransition) {
		c.log.Warn("ignoring a transition that the state machine does not allow", "runner", id, "to", to, "err", err)
	}
	return r, changed, err
}

// tryTransition is a transition that may well come too late.
func (c *Controller) tryTransition(ctx context.Context, id string, to store.RunnerState, ch store.Change) (store.Runner, bool, error) {
	r, changed, err := c.store.TransitionRunner(ctx, id, to, ch)
	if err != nil {
		return r, false, err
	}
	if changed {
		c.log.Info("runner "+string(to), "runner", r.ID, "name", r.Name, "host", r.HostID, "message", r.Message)
		c.runnerMoved(ctx, r)
	}
	return r, changed, nil
}

// runnerMoved does what follows from any change of a runner's state.
func (c *Controller) runnerMoved(ctx context.Context, r store.Runner) {
	c.bus.Publish(events.RunnerChanged, r.ID)
	c.reconcile.Set()
	c.observeStages(ctx, r)
	c.askForLogs(ctx, r.ID)
	if r.State == store.RunnerRemoved || r.State == store.RunnerFailed {
		if r.StateAt.Equal(r.FinishedAt) { // not a failed one that is put away
			c.metrics.Inc(metrics.RunnersEnded, c.poolName(ctx, r.PoolID), string(r.State))
		}
		c.cleanup.Set()
	}
}

func (c *Controller) poolName(ctx context.Context, id string) string {
	p, err := c.store.Pool(ctx, id)
	if err != nil {
		return id
	}
	return p.Name
}

// failRunner gives a live runner up: its job, if it had one, was failed by the fleet.
func (c *Controller) failRunner(ctx context.Context, id, why string) error {
	r, changed, err := c.transition(ctx, id, store.RunnerFailed, store.Change{Message: why})
	if err != nil || !changed {
		return err
	}
	return c.blameFleet(ctx, r, why)
}

// blameFleet marks the job that a lost runner was executing as failed by the fleet, not by its workflow.
func (c *Controller) blameFleet(ctx context.Context, r store.Runner, why string) error {
	if r.JobID == "" {
		return nil
	}
	j, err := c.store.Job(ctx, r.JobID)
	if err != nil || j.State == store.JobCompleted {
		return err
	}
	if err := c.store.SetJobFleetFault(ctx, j.ID, why); err != nil {
		return fmt.Errorf("cannot mark job %s as the fleet's failure: %w", j.ID, err)
	}
	c.bus.Publish(events.JobChanged, j.ID)
	return nil
}
