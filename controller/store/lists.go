package store

import (
	"context"
	"time"
)

// Within restricts a list to what belongs to one of some installations or pools. No restriction at all is a nil *Within.
type Within struct{ Installations, Pools []string }

// in adds the restriction to a query: columns name a row's installation and its pool.
func (x *Within) in(w *where, installation, pool string) {
	if x == nil {
		return
	}
	var conds where
	if len(x.Installations) > 0 {
		conds.in(installation, anys(x.Installations))
	}
	if len(x.Pools) > 0 {
		conds.in(pool, anys(x.Pools))
	}
	switch len(conds.conds) {
	case 0:
		w.add("1 = 0")
	case 1:
		w.add(conds.conds[0], conds.args...)
	default:
		w.add("("+conds.conds[0]+" OR "+conds.conds[1]+")", conds.args...)
	}
}

// After is the last row of the page before, by what the list is sorted by; a zero one begins at the newest.
type After struct {
	At time.Time
	ID string
}

func (a After) in(w *where, column string) {
	if a.ID != "" {
		w.add("("+column+", id) < (?, ?)", micros(a.At), a.ID)
	}
}

// equal adds a condition for every value that is not empty.
func (w *where) equal(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			w.add(pairs[i]+" = ?", pairs[i+1])
		}
	}
}

// JobPage selects a page of jobs. Zero fields select all.
type JobPage struct {
	States       []JobState
	Installation string
	Repository   string // owner/name, in any case
	Pool         string // whose runner has, or had, the job
	Conclusion   string
	Within       []*Within // each must hold
	After        After     // by SeenAt
	Limit        int
}

// jobPool is the pool of the runner that has a job.
const jobPool = "(SELECT pool_id FROM runners WHERE runners.id = jobs.runner_id)"

func (p JobPage) query() (string, []any) {
	var w where
	if len(p.States) > 0 {
		w.in("state", anys(p.States))
	}
	w.equal("installation_id", p.Installation, jobPool, p.Pool, "conclusion", p.Conclusion)
	if p.Repository != "" {
		w.add("LOWER(repository) = LOWER(?)", p.Repository)
	}
	for _, x := range p.Within {
		x.in(&w, "installation_id", jobPool)
	}
	p.After.in(&w, "seen_at")
	return selectJob + w.String() + " ORDER BY seen_at DESC, id DESC" + limit(p.Limit), w.args
}

// JobPage returns jobs, the last one that we heard of first.
func (s *Store) JobPage(ctx context.Context, p JobPage) ([]Job, error) {
	q, args := p.query()
	list, err := all(ctx, s.readers, scanJob, q, args...)
	return list, errorf(err, "list jobs")
}

// RunnerPage selects a page of runners. Zero fields select all.
type RunnerPage struct {
	States                   []RunnerState
	Live                     bool // neither removed nor failed
	Pool, Host, Installation string
	Demand                   string    // made for this job
	Within                   []*Within // each must hold
	After                    After     // by CreatedAt
	Limit                    int
}

func (p RunnerPage) query() (string, []any) {
	var w where
	if len(p.States) > 0 {
		w.in("state", anys(p.States))
	}
	if p.Live {
		w.add(liveRunner)
	}
	w.equal("pool_id", p.Pool, "host_id", p.Host, "installation_id", p.Installation, "demand_job_id", p.Demand)
	for _, x := range p.Within {
		x.in(&w, "installation_id", "pool_id")
	}
	p.After.in(&w, "created_at")
	return selectRunner + w.String() + " ORDER BY created_at DESC, id DESC" + limit(p.Limit), w.args
}

// RunnerPage returns runners, the newest first.
func (s *Store) RunnerPage(ctx context.Context, p RunnerPage) ([]Runner, error) {
	q, args := p.query()
	list, err := all(ctx, s.readers, scanRunner, q, args...)
	return list, errorf(err, "list runners")
}

// JobCounts is how many jobs there are in each state that is not over.
func (s *Store) JobCounts(ctx context.Context) (map[JobState]int, error) {
	type row struct {
		state JobState
		n     int
	}
	list, err := all(ctx, s.readers, func(sc scanner) (r row, err error) { return r, sc.Scan(&r.state, &r.n) },
		"SELECT state, COUNT(*) FROM jobs WHERE state <> 'completed' GROUP BY state")
	counts := make(map[JobState]int, len(list))
	for _, r := range list {
		counts[r.state] = r.n
	}
	return counts, errorf(err, "count the jobs")
}

const (
	selectPendingOf = selectTask + " WHERE host_id = ? AND kind = ? AND state = 'pending' ORDER BY seq"
	selectLeasedOf  = selectTask + leasedToHost + " AND kind = ?"
)

// OutstandingTasks returns the tasks of a kind that a host has been asked for and has not answered.
func (s *Store) OutstandingTasks(ctx context.Context, hostID, kind string) ([]Task, error) {
	var list []Task
	for _, state := range []string{selectPendingOf, selectLeasedOf} { // each has an index of its own
		some, err := all(ctx, s.readers, s.scanTask, state, hostID, kind)
		if err != nil {
			return nil, errorf(err, "list the tasks of host %s", hostID)
		}
		list = append(list, some...)
	}
	return list, nil
}
