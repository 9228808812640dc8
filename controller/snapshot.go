package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// snapshot reads everything that a scheduling decision is made from.
func (c *Controller) snapshot(ctx context.Context) (scheduler.Snapshot, error) {
	now := c.now()
	s := scheduler.Snapshot{Now: now, Tunables: c.set.Scheduler}
	fail := func(what string, err error) (scheduler.Snapshot, error) {
		return s, fmt.Errorf("cannot read %s for a scheduling decision: %w", what, err)
	}
	ins, err := c.store.Installations(ctx)
	if err != nil {
		return fail("installations", err)
	}
	type hold struct {
		why   string
		until time.Time
	}
	held := map[string]hold{}
	for _, in := range ins {
		if github.Held(now, in.HoldUntil) {
			held[in.ID] = hold{fmt.Sprintf("GitHub asked us to wait until %s: %s", in.HoldUntil.UTC().Format(time.RFC3339), in.HoldReason), in.HoldUntil}
		}
	}
	pools, err := c.store.Pools(ctx)
	if err != nil {
		return fail("pools", err)
	}
	for _, p := range pools {
		s.Pools = append(s.Pools, scheduler.Pool{
			ID: p.ID, Name: p.Name, Labels: p.Labels, Backend: p.Backend, OS: p.OS, Arch: p.Arch,
			HostSelector: p.HostSelector, Repository: p.Repository, Installation: p.InstallationID,
			Min: p.Min, Max: p.Max, Priority: p.Priority, Enabled: p.Enabled, Held: held[p.InstallationID].why, HeldUntil: held[p.InstallationID].until,
			IdleTimeout: p.IdleTimeout, ScaleUpDelay: p.ScaleUpDelay, MaxLifetime: p.MaxLifetime, RepoLimit: p.RepoLimit,
		})
	}
	jobs, err := c.store.DemandJobs(ctx)
	if err != nil {
		return fail("jobs", err)
	}
	repo := make(map[string]string, len(jobs))
	executing := map[string]bool{} // runner names
	for _, j := range jobs {
		repo[j.ID] = j.Repository
		if j.State == store.JobInProgress {
			executing[j.RunnerName] = true
		}
		s.Jobs = append(s.Jobs, scheduler.Job{
			ID: j.ID, Installation: j.InstallationID, Repository: j.Repository, Labels: j.Labels,
			State: string(j.State), QueuedAt: j.SeenAt,
		})
	}
	runners, err := c.store.DemandRunners(ctx)
	if err != nil {
		return fail("runners", err)
	}
	for _, r := range runners {
		of := r.JobID
		if of == "" {
			of = r.DemandJobID
		}
		state := r.State
		if executing[r.Name] && (state == store.RunnerRegistering || state == store.RunnerIdle) {
			// The job's row was read in the moment before it was linked to this one: without this, the runner would look
			// like one that nothing needs any more.
			state = store.RunnerBusy
		}
		s.Runners = append(s.Runners, scheduler.Runner{
			ID: r.ID, PoolID: r.PoolID, HostID: r.HostID, State: string(state), Repository: repo[of],
			DemandJobID: r.DemandJobID, CreatedAt: r.CreatedAt, StateAt: r.StateAt, FinishedAt: r.FinishedAt,
		})
	}
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		return fail("hosts", err)
	}
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, schedulerHost(h))
	}
	return s, nil
}

func schedulerHost(h store.Host) scheduler.Host {
	out := scheduler.Host{
		ID: h.ID, Name: h.Name, OS: h.OS, Arch: h.Arch, Labels: h.Labels, Capacity: h.Capacity,
		Cordoned: h.Cordoned, Lost: !h.LostAt.IsZero(), LastHeartbeat: h.LastHeartbeatAt,
	}
	for _, b := range h.Backends {
		if b.Error == "" {
			out.Backends = append(out.Backends, b.Name)
		}
	}
	return out
}
