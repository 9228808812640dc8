package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// runnerMoves is the allow-list of the runner state machine, without the moves that every live
// state has: to failed and to removed.
var runnerMoves = map[RunnerState][]RunnerState{
	RunnerProvisioning: {RunnerRegistering, RunnerDraining},
	RunnerRegistering:  {RunnerIdle, RunnerBusy, RunnerDraining},
	RunnerIdle:         {RunnerBusy, RunnerDraining},
	RunnerBusy:         {RunnerIdle, RunnerDraining},
	RunnerDraining:     {},
	RunnerFailed:       {RunnerRemoved},
	RunnerRemoved:      {},
}

// Live says whether a runner in this state still counts: it is neither removed nor failed.
func (s RunnerState) Live() bool { return s != RunnerRemoved && s != RunnerFailed }

// CanTransition says whether a runner may go from one state to another. The same state again is
// always legal; a state that does not exist never is.
func CanTransition(from, to RunnerState) bool {
	moves, known := runnerMoves[from]
	if _, exists := runnerMoves[to]; !known || !exists {
		return false
	}
	return from == to || slices.Contains(moves, to) || from.Live() && !to.Live()
}

// Change carries what comes with a transition. Zero fields leave the row as it is.
type Change struct {
	Message    string
	JobID      string
	WorkloadID string
	StartedAt  time.Time // the workload's start, by the host's clock
	ExitCode   *int
	OOMKilled  bool
}

// moved is a runner after a transition, and whether its state changed.
type moved struct {
	runner  Runner
	changed bool
}

// TransitionRunner moves a runner along the allow-list and says whether its state changed. The
// same state again is legal and changes nothing, not even StateAt, but fills WorkloadID, JobID,
// StartedAt and ExitCode (with OOMKilled) where they were empty. A move outside the list is
// ErrTransition and changes nothing.
func (s *Store) TransitionRunner(ctx context.Context, id string, to RunnerState, c Change) (Runner, bool, error) {
	now := s.now()
	m, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (m moved, err error) {
		r, err := one(ctx, t, scanRunner, selectRunner+" WHERE id = ?", id)
		if err != nil {
			return m, err
		}
		m.runner, m.changed, err = transition(ctx, t, r, to, c, now)
		return m, err
	})
	return m.runner, m.changed, errorf(err, "move runner %s to %s", id, to)
}

// transition moves r and writes its row.
func transition(ctx context.Context, t *tx, r Runner, to RunnerState, c Change, now time.Time) (Runner, bool, error) {
	before := r
	changed, err := r.move(to, c, now)
	if err != nil {
		return Runner{}, false, err
	}
	return r, changed, saveRunner(ctx, t, before, r)
}

// saveRunner writes a row that has changed. What an agent repeats costs no write.
func saveRunner(ctx context.Context, t *tx, before, r Runner) error {
	if r == before {
		return nil
	}
	return execOne(ctx, t, runnerColumns.update("runners"), append(r.values(), r.ID)...)
}

// move is the state machine itself: it checks the move, stamps the times and takes over c.
func (r *Runner) move(to RunnerState, c Change, now time.Time) (changed bool, err error) {
	if !CanTransition(r.State, to) {
		return false, fmt.Errorf("%w: it is %s", ErrTransition, r.State)
	}
	fill(&r.WorkloadID, c.WorkloadID)
	fill(&r.StartedAt, stamp(c.StartedAt))
	if r.ExitCode == nil && (c.ExitCode != nil || c.OOMKilled) {
		r.ExitCode, r.OOMKilled = c.ExitCode, r.OOMKilled || c.OOMKilled
	}
	if r.State == to {
		fill(&r.JobID, c.JobID)
		return false, nil
	}
	if c.JobID != "" {
		r.JobID = c.JobID
	}
	if c.Message != "" {
		r.Message = c.Message
	}
	r.State, r.StateAt = to, now
	switch to {
	case RunnerProvisioning: // where every runner begins; nothing leads back to it
	case RunnerRegistering:
		fill(&r.StartedAt, now)
	case RunnerIdle:
		fill(&r.RegisteredAt, now)
	case RunnerBusy:
		fill(&r.RegisteredAt, now)
		fill(&r.BusyAt, now)
	case RunnerDraining:
		fill(&r.DrainAt, now)
	case RunnerFailed, RunnerRemoved:
		fill(&r.FinishedAt, now)
	}
	return true, nil
}

// AssignJob links a job and the runner that runs it and moves the runner to busy, in one
// transaction; it says whether the runner's state changed. GitHub's word that a job runs may be
// faster than the agent's that the workload does, so a provisioning runner goes through
// registering on the way. A draining or finished runner, and a job that is completed already,
// are only linked.
func (s *Store) AssignJob(ctx context.Context, jobID, runnerID string) (Runner, bool, error) {
	now := s.now()
	m, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (m moved, err error) {
		job, err := one(ctx, t, scanJob, selectJob+" WHERE id = ?", jobID)
		if err != nil {
			return m, err
		}
		r, err := one(ctx, t, scanRunner, selectRunner+" WHERE id = ?", runnerID)
		if err != nil {
			return m, err
		}
		if job.RunnerID != r.ID {
			if err := execOne(ctx, t, "UPDATE jobs SET runner_id = ? WHERE id = ?", r.ID, job.ID); err != nil {
				return m, err
			}
		}
		before := r
		m.changed, err = r.assign(job, now)
		m.runner = r
		if err != nil {
			return m, err
		}
		return m, saveRunner(ctx, t, before, r)
	})
	return m.runner, m.changed, errorf(err, "give job %s to runner %s", jobID, runnerID)
}

// assign links a job to r and makes r busy where that is still to be.
func (r *Runner) assign(job Job, now time.Time) (changed bool, err error) {
	if job.State == JobCompleted {
		fill(&r.JobID, job.ID)
		return false, nil
	}
	r.JobID = job.ID
	if !r.State.Live() || r.State == RunnerDraining {
		return false, nil
	}
	if r.State == RunnerProvisioning {
		// StartedAt is left for the agent to say.
		r.State, r.StateAt = RunnerRegistering, now
	}
	return r.move(RunnerBusy, Change{}, now)
}
