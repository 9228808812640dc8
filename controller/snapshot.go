package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// snapshot reads everything that a scheduling decision is made from.
func (c *Controller) snapshot(ctx context.Context) (scheduler.Snapshot, error) {
	now := c.now()
	s := scheduler.Snapshot{Now: now, Tunables: c.settings().Scheduler}
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
	account := map[string]string{} // by installation
	for _, in := range ins {
		account[in.ID] = accountOf(in)
		if github.Held(now, in.HoldUntil) {
			held[in.ID] = hold{fmt.Sprintf("GitHub asked us to wait until %s: %s", in.HoldUntil.UTC().Format(time.RFC3339), in.HoldReason), in.HoldUntil}
		}
	}
	paused, err := c.store.QueuePause(ctx)
	if err != nil {
		return fail("whether the queue is paused", err)
	}
	pools, err := c.store.Pools(ctx)
	if err != nil {
		return fail("pools", err)
	}
	for _, p := range pools {
		h := held[p.InstallationID]
		if until := c.exits.heldUntil(p.ID, now); until.After(h.until) {
			h = hold{"its runners end without taking a job", until}
		}
		s.Pools = append(s.Pools, scheduler.Pool{
			ID: p.ID, Name: p.Name, Labels: p.Labels, Backend: p.Backend, OS: p.OS, Arch: p.Arch,
			HostSelector: p.HostSelector, Repository: p.Repository, Account: account[p.InstallationID], Installation: p.InstallationID,
			Min: p.Min, Max: p.Max, Priority: p.Priority, Enabled: p.Enabled, Held: h.why, HeldUntil: h.until, Paused: pauseOf(paused, p),
			IdleTimeout: p.IdleTimeout, ScaleUpDelay: p.ScaleUpDelay, MaxLifetime: p.MaxLifetime, RepoLimit: p.RepoLimit,
		})
	}
	// Runners are read before jobs. A job whose runner was seen starting may so be seen running or over, which is put right
	// below; the other way round, a job seen queued whose runner has meanwhile taken it would be given a second one.
	linking := c.links.listen()
	defer linking.stop()
	runners, err := c.store.DemandRunners(ctx)
	if err != nil {
		return fail("runners", err)
	}
	jobs, err := c.store.DemandJobs(ctx)
	if err != nil {
		return fail("jobs", err)
	}
	linked := linking.stop()
	aside, _ := c.exits.aside(now, c.now())
	repo := make(map[string]string, len(jobs))
	executing := map[string]bool{} // runner names
	for _, j := range jobs {
		repo[j.ID] = j.Repository
		if j.State == store.JobInProgress {
			executing[j.RunnerName] = true
		}
		if j.State == store.JobQueued && (aside[j.ID] || linked.jobs[linkedJob{j.Repository, j.GitHubID}]) {
			continue // GitHub is being asked whether it still waits, or has just said that it does not
		}
		s.Jobs = append(s.Jobs, scheduler.Job{
			ID: j.ID, Account: account[j.InstallationID], Repository: j.Repository, Labels: j.Labels,
			State: string(j.State), QueuedAt: j.SeenAt,
		})
	}
	for _, r := range runners {
		s.Runners = append(s.Runners, schedulerRunner(r, repo, executing[r.Name] || linked.runners[r.Name]))
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

// accountOf names the account whose jobs an installation serves. An account may have installed several Apps: a job that one of
// them tells of runs on a runner of any, since GitHub knows no difference between their registrations.
func accountOf(in store.Installation) string { return in.BaseURL + " " + strings.ToLower(in.Account) }

// pauseOf is what keeps a pool from new runners because somebody wants it so; nil when nothing does.
func pauseOf(queue store.QueuePause, p store.Pool) *scheduler.Pause {
	switch {
	case queue.Paused():
		return &scheduler.Pause{Queue: true, Since: queue.Since, By: queue.By, Reason: queue.Reason}
	case !p.PausedAt.IsZero():
		return &scheduler.Pause{Since: p.PausedAt, Reason: p.PauseReason}
	}
	return nil
}

// schedulerRunner says what a runner is to the decision. executing means that a job names it as its runner.
func schedulerRunner(r store.DemandRunner, repo map[string]string, executing bool) scheduler.Runner {
	of := r.JobID
	if of == "" {
		of = r.DemandJobID
	}
	state := r.State
	// One that has a job takes no other: whether its row says so yet (the link follows the job's own state, and its host's
	// word that it has started may come last), or will never (only the delivery that ended the job arrived).
	if executing || r.Ephemeral && r.JobID != "" {
		switch state {
		case store.RunnerProvisioning, store.RunnerRegistering, store.RunnerIdle:
			state = store.RunnerBusy
		default: // busy already, or beyond work
		}
	}
	return scheduler.Runner{
		ID: r.ID, PoolID: r.PoolID, HostID: r.HostID, State: string(state), Repository: repo[of],
		DemandJobID: r.DemandJobID, CreatedAt: r.CreatedAt, StateAt: r.StateAt, FinishedAt: r.FinishedAt,
	}
}

func schedulerHost(h store.Host) scheduler.Host {
	out := scheduler.Host{
		ID: h.ID, Name: h.Name, OS: h.OS, Arch: h.Arch, Labels: h.Labels, Capacity: h.Capacity,
		Cordoned: h.Cordoned, Draining: h.Draining, Lost: !h.LostAt.IsZero(), LastHeartbeat: h.LastHeartbeatAt,
		DiskUsed: h.DiskUsed(),
	}
	for _, b := range h.Backends {
		if b.Error == "" {
			out.Backends = append(out.Backends, b.Name)
		}
	}
	return out
}
