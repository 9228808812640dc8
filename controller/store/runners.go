package store

import (
	"context"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

const runnerColumns columns = `id, name, pool_id, host_id, installation_id, repository, backend, image, state, message, reason,
	github_id, demand_job_id, job_id, workload_id, ephemeral, cpus, memory_mb, exit_code, oom_killed,
	created_at, state_at, started_at, registered_at, busy_at, drain_at, finished_at, deregistered, cleaned`

const (
	selectRunner = "SELECT " + string(runnerColumns) + " FROM runners"
	// liveRunner is the condition that the index of live runners serves.
	liveRunner     = "state NOT IN ('removed', 'failed')"
	finishedRunner = "state IN ('removed', 'failed')"
)

func (r *Runner) values() []any {
	return []any{r.ID, r.Name, r.PoolID, r.HostID, r.InstallationID, r.Repository, r.Backend, r.Image, string(r.State), r.Message, r.Reason,
		r.GitHubID, r.DemandJobID, r.JobID, r.WorkloadID, r.Ephemeral, r.CPUs, r.MemoryMB, r.ExitCode, r.OOMKilled,
		micros(r.CreatedAt), micros(r.StateAt), micros(r.StartedAt), micros(r.RegisteredAt), micros(r.BusyAt),
		micros(r.DrainAt), micros(r.FinishedAt), r.Deregistered, r.Cleaned}
}

func scanRunner(row scanner) (r Runner, err error) {
	err = row.Scan(&r.ID, &r.Name, &r.PoolID, &r.HostID, &r.InstallationID, &r.Repository, &r.Backend, &r.Image, &r.State, &r.Message, &r.Reason,
		&r.GitHubID, &r.DemandJobID, &r.JobID, &r.WorkloadID, &r.Ephemeral, &r.CPUs, &r.MemoryMB, &r.ExitCode, &r.OOMKilled,
		intoTime(&r.CreatedAt), intoTime(&r.StateAt), intoTime(&r.StartedAt), intoTime(&r.RegisteredAt), intoTime(&r.BusyAt),
		intoTime(&r.DrainAt), intoTime(&r.FinishedAt), &r.Deregistered, &r.Cleaned)
	return r, err
}

// CreateRunners writes new runners in provisioning, all or none. It fills in their IDs where they
// have none, and their State, CreatedAt and StateAt, in the caller's slice. ErrConflict when a
// name is taken, ErrNotFound when a pool or host is gone.
func (s *Store) CreateRunners(ctx context.Context, rs []Runner) error {
	now := s.now()
	for i := range rs {
		r := &rs[i]
		if r.ID == "" {
			r.ID = NewID(idRunner)
		}
		r.State, r.CreatedAt, r.StateAt = RunnerProvisioning, now, now
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		for i := range rs {
			r := &rs[i]
			if _, err := one(ctx, t, scanString, "SELECT id FROM pools WHERE id = ?", r.PoolID); err != nil {
				return fmt.Errorf("runner %q: pool %q: %w", r.Name, r.PoolID, err)
			}
			if _, err := one(ctx, t, scanString, "SELECT id FROM hosts WHERE id = ?", r.HostID); err != nil {
				return fmt.Errorf("runner %q: host %q: %w", r.Name, r.HostID, err)
			}
			if _, err := exec(ctx, t, runnerColumns.insert("runners"), r.values()...); err != nil {
				return fmt.Errorf("runner %q: %w", r.Name, classify(err))
			}
		}
		return nil
	})
	return errorf(err, "create %d runners", len(rs))
}

// Runner returns one runner. ErrNotFound when there is none.
func (s *Store) Runner(ctx context.Context, id string) (Runner, error) {
	r, err := one(ctx, s.readers, scanRunner, selectRunner+" WHERE id = ?", id)
	return r, errorf(err, "read runner %s", id)
}

// RunnerByName returns the runner of that name. ErrNotFound when there is none.
func (s *Store) RunnerByName(ctx context.Context, name string) (Runner, error) {
	r, err := one(ctx, s.readers, scanRunner, selectRunner+" WHERE name = ?", name)
	return r, errorf(err, "read runner %q", name)
}

// RunnerFilter selects runners. Zero fields select all.
type RunnerFilter struct {
	States                         []RunnerState
	Live                           bool // neither removed nor failed
	HostID, PoolID, InstallationID string
	NeedsCleanup                   bool // terminal, and not both Deregistered and Cleaned
	FinishedBefore                 time.Time
	Limit                          int
}

// Runners returns runners by CreatedAt, then ID.
func (s *Store) Runners(ctx context.Context, f RunnerFilter) ([]Runner, error) {
	var w where
	if len(f.States) > 0 {
		w.in("state", anys(f.States))
		live := true
		for _, st := range f.States {
			live = live && st.Live()
		}
		f.Live = f.Live || live // lets the index of live runners serve
	}
	if f.Live {
		w.add(liveRunner)
	}
	for _, is := range []struct{ column, id string }{{"host_id", f.HostID}, {"pool_id", f.PoolID}, {"installation_id", f.InstallationID}} {
		if is.id != "" {
			w.add(is.column+" = ?", is.id)
		}
	}
	if f.NeedsCleanup {
		w.add(finishedRunner)
		w.add("NOT (deregistered AND cleaned)")
	}
	if !f.FinishedBefore.IsZero() {
		w.add(finishedRunner)
		w.add("finished_at < ?", micros(f.FinishedBefore))
	}
	list, err := all(ctx, s.readers, scanRunner, selectRunner+w.String()+" ORDER BY created_at, id"+limit(f.Limit), w.args...)
	return list, errorf(err, "list runners")
}

const selectRepositories = "SELECT DISTINCT repository FROM runners WHERE installation_id = ? AND repository <> ''"

// RunnerRepositories returns the repositories at which runners of an installation are or were registered, as far back as
// history goes. An ended runner counts too: the answer to its mint may have been lost.
func (s *Store) RunnerRepositories(ctx context.Context, installationID string) ([]string, error) {
	list, err := all(ctx, s.readers, scanString, selectRepositories, installationID)
	return list, errorf(err, "list the repositories of installation %s", installationID)
}

// RunnersWithoutCreate returns provisioning runners that have no create task in any state: their
// registration was never minted, or the answer was lost before it was written down.
func (s *Store) RunnersWithoutCreate(ctx context.Context) ([]Runner, error) {
	list, err := all(ctx, s.readers, scanRunner, selectRunner+` WHERE state = 'provisioning' AND `+liveRunner+`
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.runner_id = runners.id AND tasks.kind = ?)
		ORDER BY created_at, id`, string(protocol.TaskCreate))
	return list, errorf(err, "list runners without a create task")
}

// SetRunnerDeregistered records that a runner's registration is known to be gone.
func (s *Store) SetRunnerDeregistered(ctx context.Context, id string) error {
	return s.setRunner(ctx, id, "deregistered = ?", true)
}

// SetRunnerCleaned records that a runner's workload is known to be gone.
func (s *Store) SetRunnerCleaned(ctx context.Context, id string) error {
	return s.setRunner(ctx, id, "cleaned = ?", true)
}

func (s *Store) setRunner(ctx context.Context, id, set string, value any) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE runners SET "+set+" WHERE id = ?", value, id)
	})
	return errorf(err, "update runner %s", id)
}
