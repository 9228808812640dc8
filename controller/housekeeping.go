package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// housekeepingLoop judges silence and finishes what nobody else would.
func (c *Controller) housekeepingLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, nil, func(ctx context.Context) {
		for what, f := range map[string]func(context.Context) error{
			"judge the hosts' silence":               c.checkHosts,
			"end drains that took too long":          c.endDrains,
			"remove runners that outlived their job": c.removeOutlived,
			"judge the pools' images":                c.checkImages,
			"prune old rows":                         c.prune,
		} {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("cannot "+what, "err", err)
			}
		}
	})
}

// checkHosts gives up hosts that have been silent for HostLostAfter, counted from this controller's start at the earliest, so
// that its own absence is never held against a host. Their runners are failed, and the jobs those ran are the fleet's failure.
func (c *Controller) checkHosts(ctx context.Context) error {
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		since := h.LastHeartbeatAt
		if c.started.After(since) {
			since = c.started
		}
		if silent := c.now().Sub(since); h.LostAt.IsZero() && silent >= HostLostAfter {
			errs = append(errs, c.loseHost(ctx, h, silent))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) loseHost(ctx context.Context, h store.Host, silent time.Duration) error {
	why := fmt.Sprintf("host %s has not been heard from for %s", h.Name, silent.Round(time.Second))
	c.log.Error("giving a host up", "host", h.Name, "silent", silent.Round(time.Second))
	if err := c.store.MarkHostLost(ctx, h.ID); err != nil {
		return err
	}
	c.bus.Publish(events.HostChanged, h.ID)
	var errs []error
	if _, err := c.store.FailHostTasks(ctx, h.ID, why); err != nil {
		errs = append(errs, err)
	}
	live, err := c.store.Runners(ctx, store.RunnerFilter{HostID: h.ID, Live: true})
	errs = append(errs, err)
	for _, r := range live {
		errs = append(errs, c.failRunner(ctx, r.ID, why))
	}
	return errors.Join(errs...)
}

// endDrains stops runners that are still busy DrainGrace after they were told to take no more work.
func (c *Controller) endDrains(ctx context.Context) error {
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerDraining}})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rows {
		if c.now().Sub(r.DrainAt) < DrainGrace {
			continue
		}
		_, _, err := c.queue.Enqueue(ctx, r.HostID, protocol.Task{Kind: protocol.TaskStop, RunnerID: r.ID, Stop: &protocol.StopRunner{Grace: protocol.SecondsOf(StopGrace)}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeOutlived removes ephemeral runners that did not exit although their job has completed.
func (c *Controller) removeOutlived(ctx context.Context) error {
	rows, err := c.store.Runners(ctx, store.RunnerFilter{States: []store.RunnerState{store.RunnerBusy}})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rows {
		if !r.Ephemeral || r.JobID == "" {
			continue
		}
		j, err := c.store.Job(ctx, r.JobID)
		if err != nil || j.State != store.JobCompleted || c.now().Sub(j.CheckedAt) < ExitGrace {
			errs = append(errs, err)
			continue
		}
		if _, _, err := c.transition(ctx, r.ID, store.RunnerDraining, store.Change{Message: "its job has completed and it did not exit"}); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.removeWorkload(ctx, r))
	}
	return errors.Join(errs...)
}

// prune deletes history that is older than the operator wants to keep.
func (c *Controller) prune(ctx context.Context) error {
	n, err := c.store.Prune(ctx, c.now().Add(-c.set.HistoryRetention))
	if n > 0 {
		c.log.Info("pruned old rows", "rows", n)
	}
	return err
}
