package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// reads measures what comes before a decision on so many jobs and runners, reading them from the database: how long it takes, and
// the mean CPU time in milliseconds.
func reads(ctx context.Context, s scheduler.Snapshot, long time.Duration) (took spread, cpu float64, err error) {
	dir, err := os.MkdirTemp("", "zoomies-bench-reads-")
	if err != nil {
		return took, 0, fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := newTarget(ctx, dir, "store", template{installation: 1, secret: "none"})
	if err != nil {
		return took, 0, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.fill(ctx, s); err != nil {
		return took, 0, err
	}
	var all []time.Duration
	used := cpuTime()
	for end := time.Now().Add(long); time.Now().Before(end) || len(all) < minRuns; {
		began := time.Now()
		jobs, err := t.store.DemandJobs(ctx)
		if err != nil {
			return took, 0, err
		}
		runners, err := t.store.DemandRunners(ctx)
		if err != nil {
			return took, 0, err
		}
		all = append(all, time.Since(began))
		if len(jobs) != len(s.Jobs) || len(runners) != len(s.Runners) {
			return took, 0, fmt.Errorf("read %d jobs and %d runners of %d and %d", len(jobs), len(runners), len(s.Jobs), len(s.Runners))
		}
	}
	return spreadOf(all), ratio(millis(cpuTime()-used), float64(len(all))), nil
}

// fill writes a snapshot's jobs and runners into the store.
func (t *target) fill(ctx context.Context, s scheduler.Snapshot) error {
	host, err := t.join(ctx)
	if err != nil {
		return err
	}
	rows := make([]store.Runner, 0, len(s.Runners))
	for _, r := range s.Runners {
		rows = append(rows, store.Runner{
			ID: r.ID, Name: "zoomies-bench-" + r.ID, PoolID: t.pool.ID, HostID: host.ID, InstallationID: t.in.ID, Backend: "podman",
		})
	}
	if err := t.store.CreateRunners(ctx, rows); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // they share commits
	for i, j := range s.Jobs {
		g.Go(func() error {
			_, err := t.store.UpsertJob(ctx, store.JobUpdate{
				InstallationID: t.in.ID, GitHubID: int64(i + 1), RunID: int64(i + 1), Repository: j.Repository, Workflow: "CI", Name: "build",
				Labels: j.Labels, State: store.JobQueued, QueuedAt: j.QueuedAt, HTMLURL: "https://github.com/" + j.Repository + "/actions/runs/1/job/1",
			})
			return err
		})
	}
	return g.Wait()
}

func (t *target) join(ctx context.Context) (store.Host, error) {
	if _, err := t.store.CreateJoinToken(ctx, store.JoinToken{Hash: "join", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		return store.Host{}, err
	}
	h, _, err := t.store.JoinHost(ctx, "join", "host-1", "agent", store.HostUpdate{OS: "linux", Arch: "amd64", Capacity: 20})
	return h, err
}
