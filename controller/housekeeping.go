package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// housekeepingLoop judges silence and finishes what nobody else would.
func (c *Controller) housekeepingLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, nil, c.housekeep)
}

func (c *Controller) housekeep(ctx context.Context) {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"judge the hosts' silence", c.checkHosts},
		{"end drains that took too long", c.endDrains},
		{"remove runners that outlived their job", c.removeOutlived},
		{"look at idle runners that no waiting job gets", c.checkIdle},
		{"judge the pools' images", c.checkImages},
		{"prune old rows", c.prune},
	} {
		if err := step.do(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("cannot "+step.what, "err", err)
		}
	}
}

// checkHosts gives up hosts that have been silent for HostLostAfter, counted from this controller's start at the earliest, so
// that its own absence is never held against a host. Their runners are failed, and the jobs those ran are the fleet's failure.
func (c *Controller) checkHosts(ctx context.Context) error {
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return err
	}
	c.judgeHosts(hosts)
	var errs []error
	for _, h := range hosts {
		since := h.LastHeartbeatAt
		if c.started.After(since) {
			since = c.started
		}
		switch silent := c.now().Sub(since); {
		case !h.LostAt.IsZero():
			// Given up already. Should this controller have been stopped half-way then, the rest is done now.
			errs = append(errs, c.abandonHost(ctx, h, fmt.Sprintf("host %s is lost", h.Name)))
		case silent >= HostLostAfter:
			errs = append(errs, c.loseHost(ctx, h, silent))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) loseHost(ctx context.Context, h store.Host, silent time.Duration) error {
	if now, err := c.store.Host(ctx, h.ID); err != nil || now.LastHeartbeatAt.After(h.LastHeartbeatAt) {
		return err // it was heard from in this very moment
	}
	c.log.Error("giving a host up", "host", h.Name, "silent", silent.Round(time.Second))
	if err := c.store.MarkHostLost(ctx, h.ID); err != nil {
		return err
	}
	h.LostAt = c.now()
	c.judgeHost(h)
	c.bus.Publish(events.HostChanged, h.ID)
	return c.abandonHost(ctx, h, fmt.Sprintf("host %s has not been heard from for %s", h.Name, silent.Round(time.Second)))
}

// abandonHost fails the live runners of a lost host, and what it was asked to do.
func (c *Controller) abandonHost(ctx context.Context, h store.Host, why string) error {
	var errs []error
	if _, err := c.store.FailHostTasks(ctx, h.ID, why); err != nil {
		errs = append(errs, err)
	}
	live, err := c.store.Runners(ctx, store.RunnerFilter{HostID: h.ID, Live: true})
	errs = append(errs, err)
	for _, r := range live {
		c.relay.Fail(r.ID, hostLost)
		errs = append(errs, ignoreTransition(c.failRunner(ctx, r.ID, why)))
	}
	return errors.Join(errs...)
}

// endDrains sees drains through. A runner without a registration can get no job any more: it is removed, again if the first
// request came to nothing. One that still has a job is stopped DrainGrace after it was told to take no more work; a stop
// that its host says is done, but of which no end was ever reported, is followed by a removal.
func (c *Controller) endDrains(ctx context.Context) error {
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerDraining}})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rows {
		late := c.now().Sub(r.DrainAt) >= DrainGrace
		switch {
		case r.Deregistered:
			errs = append(errs, c.removeWorkload(ctx, r))
		case r.BusyAt.IsZero() && !late:
			// It never had a job, and a crash came between its draining and the end of its registration.
			c.spawn(ctx, c.retiring, r.InstallationID, r.ID, func(ctx context.Context) error {
				_, err := c.leave(ctx, r, r.Message)
				return err
			})
		case late:
			errs = append(errs, c.blameDrain(ctx, r), c.stopWorkload(ctx, r))
		case !r.Ephemeral:
			errs = append(errs, c.leaveIfDone(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// blameDrain marks the job of a runner that is stopped since its drain has lasted too long: its workflow is not at fault.
func (c *Controller) blameDrain(ctx context.Context, r store.Runner) error {
	if r.JobID == "" {
		return nil
	}
	j, err := c.store.Job(ctx, r.JobID)
	if err != nil || j.FleetFault != "" {
		return err
	}
	return c.blameFleet(ctx, r, fmt.Sprintf("its runner was drained and the job did not finish within %s: %s", DrainGrace, r.Message))
}

// leaveIfDone takes away a runner that would take one job after the other, and was told to go, when its job is over.
func (c *Controller) leaveIfDone(ctx context.Context, r store.Runner) error {
	if r.JobID == "" {
		return nil
	}
	j, err := c.store.Job(ctx, r.JobID)
	if err != nil || j.State != store.JobCompleted {
		return err
	}
	c.spawn(ctx, c.retiring, r.InstallationID, r.ID, func(ctx context.Context) error {
		_, err := c.leave(ctx, r, r.Message)
		return err
	})
	return nil
}

// drainLoop sees to drains that an operator has just asked for, so that they begin at once.
func (c *Controller) drainLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, c.drains.C(), func(ctx context.Context) {
		if err := c.endDrains(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("cannot see to the runners that are draining", "err", err)
		}
	})
}

func (c *Controller) stopWorkload(ctx context.Context, r store.Runner) error {
	ts, err := c.store.Tasks(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, t := range ts {
		if t.Kind == string(protocol.TaskStop) && t.State == store.TaskDone {
			return c.removeWorkload(ctx, r)
		}
	}
	_, _, err = c.queue.Enqueue(ctx, r.HostID, protocol.Task{Kind: protocol.TaskStop, RunnerID: r.ID, Stop: &protocol.StopRunner{Grace: protocol.SecondsOf(StopGrace)}})
	return err
}

// removeOutlived removes ephemeral runners that did not exit although their job has completed.
func (c *Controller) removeOutlived(ctx context.Context) error {
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerRegistering, store.RunnerIdle, store.RunnerBusy}})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rows {
		if r.JobID == "" {
			continue
		}
		if !r.Ephemeral {
			errs = append(errs, c.freeIfDone(ctx, r)) // the word that its job was over may have been cut short by a crash
			continue
		}
		j, err := c.store.Job(ctx, r.JobID)
		if err != nil || j.State != store.JobCompleted || c.now().Sub(j.CompletedAt) < ExitGrace {
			errs = append(errs, err)
			continue
		}
		c.spawn(ctx, c.retiring, r.InstallationID, r.ID, func(ctx context.Context) error {
			_, err := c.leave(ctx, r, "its job has completed and it did not exit")
			return err
		})
	}
	return errors.Join(errs...)
}

// freeIfDone makes a persistent runner idle whose job is over.
func (c *Controller) freeIfDone(ctx context.Context, r store.Runner) error {
	j, err := c.store.Job(ctx, r.JobID)
	if err != nil || j.State != store.JobCompleted {
		return err
	}
	return c.freeRunner(ctx, j)
}

// idleSuspect is how long a runner may be idle, as far as we know, while a job waits for its pool.
const idleSuspect = 30 * time.Second

// checkIdle compares registrations with rows sooner than the reap would, for pools in which a job waits although a runner is
// idle: it may have got a job of a repository whose webhooks never reach us, or GitHub may have deleted it. Without
// this, the waiting job would get no other runner.
func (c *Controller) checkIdle(ctx context.Context) error {
	waiting := c.waitingPools()
	if len(waiting) == 0 {
		return nil
	}
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerIdle}})
	if err != nil {
		return err
	}
	suspect := map[string]bool{} // installations
	for _, r := range rows {
		if waiting[r.PoolID] && c.now().Sub(r.StateAt) >= idleSuspect {
			suspect[r.InstallationID] = true
		}
	}
	for id := range suspect {
		in, err := c.store.Installation(ctx, id)
		if err != nil {
			return err
		}
		c.spawnReap(ctx, in)
	}
	return nil
}

// waitingPools are the pools for which jobs were queued in the last pass.
func (c *Controller) waitingPools() map[string]bool {
	c.waitingMu.Lock()
	defer c.waitingMu.Unlock()
	return c.waiting
}

func (c *Controller) noteWaiting(plan scheduler.Plan) {
	waiting := map[string]bool{}
	for _, d := range plan.Pools {
		if d.Queued > 0 {
			waiting[d.PoolID] = true
		}
	}
	c.waitingMu.Lock()
	defer c.waitingMu.Unlock()
	c.waiting = waiting
}

// prune deletes history that is older than the operator wants to keep.
func (c *Controller) prune(ctx context.Context) error {
	n, err := c.store.Prune(ctx, c.now().Add(-c.settings().HistoryRetention))
	if n > 0 {
		c.log.Info("pruned old rows", "rows", n)
	}
	return err
}
