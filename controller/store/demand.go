package store

import (
	"context"
	"time"
)

// A decision is made again after every event and looks at every job and runner that is not over. It reads only the columns
// that it weighs, through indexes that hold no history.

// DemandJob is what a decision needs of a job that is queued or in progress.
type DemandJob struct {
	ID, InstallationID, Repository string
	Labels                         []string // shared by the jobs that ask for the same: not to be changed
	State                          JobState
	RunnerName                     string
	GitHubID                       int64
	SeenAt                         time.Time
}

const selectDemandJobs = `SELECT id, installation_id, github_id, repository, labels, state, runner_name, seen_at
	FROM jobs WHERE state IN ('queued', 'in_progress') AND state <> 'completed'`

// DemandJobs returns the jobs that are queued or in progress, in no order.
func (s *Store) DemandJobs(ctx context.Context) ([]DemandJob, error) {
	known := map[string][]string{}
	scan := func(row scanner) (j DemandJob, err error) {
		var labels string
		if err := row.Scan(&j.ID, &j.InstallationID, &j.GitHubID, &j.Repository, &labels, &j.State, &j.RunnerName, intoTime(&j.SeenAt)); err != nil {
			return j, err
		}
		list, seen := known[labels]
		if !seen {
			if err := intoJSON(&list).Scan(labels); err != nil {
				return j, err
			}
			known[labels] = list
		}
		j.Labels = list
		return j, nil
	}
	list, err := all(ctx, s.readers, scan, selectDemandJobs)
	return list, errorf(err, "list the jobs to decide about")
}

// DemandRunner is what a decision needs of a runner.
type DemandRunner struct {
	ID, Name, PoolID, HostID       string
	State                          RunnerState
	JobID, DemandJobID             string
	Ephemeral                      bool
	CreatedAt, StateAt, FinishedAt time.Time
}

const selectDemandRunners = `SELECT id, name, pool_id, host_id, state, job_id, demand_job_id, ephemeral, created_at, state_at, finished_at
	FROM runners WHERE state <> 'removed'`

// DemandRunners returns the live runners, and the failed ones that nobody has removed yet, in no order.
func (s *Store) DemandRunners(ctx context.Context) ([]DemandRunner, error) {
	scan := func(row scanner) (r DemandRunner, err error) {
		return r, row.Scan(&r.ID, &r.Name, &r.PoolID, &r.HostID, &r.State, &r.JobID, &r.DemandJobID, &r.Ephemeral,
			intoTime(&r.CreatedAt), intoTime(&r.StateAt), intoTime(&r.FinishedAt))
	}
	list, err := all(ctx, s.readers, scan, selectDemandRunners)
	return list, errorf(err, "list the runners to decide about")
}
