package controller

import (
	"context"

	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// observe sets the gauges from what a pass saw.
func (c *Controller) observe(snap scheduler.Snapshot, plan scheduler.Plan) {
	m := c.metrics
	for _, g := range []string{metrics.Jobs, metrics.Runners, metrics.Hosts, metrics.HostSlots, metrics.PoolBlocked} {
		m.Reset(g)
	}
	names := map[string]string{}
	for _, p := range snap.Pools {
		names[p.ID] = p.Name
	}
	count := func(metric string, n map[[2]string]float64, labels int) {
		for k, v := range n {
			m.Set(metric, v, k[:labels]...)
		}
	}
	jobs, runners, hosts := map[[2]string]float64{}, map[[2]string]float64{}, map[[2]string]float64{}
	for _, j := range snap.Jobs {
		jobs[[2]string{j.State}]++
	}
	used := map[string]int{}
	for _, r := range snap.Runners {
		runners[[2]string{names[r.PoolID], r.State}]++
		if r.State != string(store.RunnerFailed) {
			used[r.HostID]++
		}
	}
	var slotsUsed, slotsFree int
	for _, h := range snap.Hosts {
		cond := "healthy"
		switch {
		case h.Lost:
			cond = "lost"
		case snap.Now.Sub(h.LastHeartbeat) > snap.Tunables.HeartbeatTimeout:
			cond = "unhealthy"
		case len(h.Backends) == 0:
			cond = "broken"
		case h.Cordoned:
			cond = "cordoned"
		case h.DiskFull():
			cond = "disk_full"
		}
		hosts[[2]string{cond}]++
		if cond == "healthy" {
			slotsUsed += used[h.ID]
			slotsFree += max(0, h.Capacity-used[h.ID])
		}
	}
	count(metrics.Jobs, jobs, 1)
	count(metrics.Runners, runners, 2)
	count(metrics.Hosts, hosts, 1)
	m.Set(metrics.HostSlots, float64(slotsUsed), "used")
	m.Set(metrics.HostSlots, float64(slotsFree), "free")
	for _, d := range plan.Pools {
		if d.Blocked != nil {
			m.Set(metrics.PoolBlocked, float64(d.Blocked.Wanted), names[d.PoolID])
		}
	}
}

// observeStages records how long the stage took that a runner's new state ends.
func (c *Controller) observeStages(ctx context.Context, r store.Runner) {
	switch r.State {
	case store.RunnerRegistering:
		ts, err := c.store.Tasks(ctx, r.ID)
		if err != nil || r.StartedAt.IsZero() {
			return
		}
		for _, t := range ts {
			if t.Kind == string(createKind) {
				c.metrics.Observe(metrics.Stage, r.StartedAt.Sub(t.CreatedAt), metrics.StageTaskToContainer)
			}
		}
	case store.RunnerIdle, store.RunnerBusy:
		if r.StateAt.Equal(r.RegisteredAt) && !r.StartedAt.IsZero() {
			c.metrics.Observe(metrics.Stage, r.RegisteredAt.Sub(r.StartedAt), metrics.StageContainerToRegistered)
		}
		if r.State == store.RunnerBusy && r.JobID != "" {
			if j, err := c.store.Job(ctx, r.JobID); err == nil {
				c.metrics.Observe(metrics.Stage, r.BusyAt.Sub(j.SeenAt), metrics.StageQueuedToRunning)
			}
		}
	default: // no stage ends with it
	}
}
