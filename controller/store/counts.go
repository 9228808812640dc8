package store

import "context"

// Count is how many jobs or runners of an installation and a pool are in a state. The pool of a job is that of the runner that has
// it, and empty while none has.
type Count struct {
	InstallationID, PoolID, State string
	N                             int
}

const (
	selectJobCounts = `SELECT jobs.installation_id, COALESCE(runners.pool_id, ''), jobs.state, COUNT(*)
		FROM jobs LEFT JOIN runners ON runners.id = jobs.runner_id WHERE jobs.state <> 'completed' GROUP BY 1, 2, 3`
	selectRunnerCounts = `SELECT installation_id, pool_id, state, COUNT(*) FROM runners WHERE state <> 'removed' GROUP BY 1, 2, 3`
)

func scanCount(row scanner) (c Count, err error) {
	return c, row.Scan(&c.InstallationID, &c.PoolID, &c.State, &c.N)
}

// CountJobs counts the jobs that are not completed.
func (s *Store) CountJobs(ctx context.Context) ([]Count, error) {
	list, err := all(ctx, s.readers, scanCount, selectJobCounts)
	return list, errorf(err, "count the jobs")
}

// CountRunners counts the live runners, and the failed ones that nobody has removed yet.
func (s *Store) CountRunners(ctx context.Context) ([]Count, error) {
	list, err := all(ctx, s.readers, scanCount, selectRunnerCounts)
	return list, errorf(err, "count the runners")
}
