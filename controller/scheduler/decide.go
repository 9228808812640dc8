package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The states of runners and jobs, in the store's words.
const (
	provisioning = "provisioning"
	registering  = "registering"
	idle         = "idle"
	busy         = "busy"
	failed       = "failed"
	removed      = "removed"

	queued     = "queued"
	inProgress = "in_progress"
)

// Decide says what should be done now. It is a pure function of the snapshot: the same snapshot,
// its lists in any order, has the same plan, and the snapshot is not changed. Applying the plan and
// deciding again at the same moment plans nothing more, unless the tick budget ran out.
func Decide(s Snapshot) Plan { return decide(&s).plan() }

// pass is one decision while it is made.
type pass struct {
	now   time.Time
	set   Tunables
	pools []*poolWork // by name
	rooms rooms
	match *matcher

	strays    []*Runner // their pool is gone
	jobs      []queuedJob
	unmatched []Unmatched

	removes, fails, retires, withdraws, drains []Action
	creates                                    []placement
}

func decide(s *Snapshot) *pass {
	d := &pass{now: s.Now, set: s.Tunables.filled(), pools: newPools(s), rooms: newRooms(s)}
	d.takeRunners(s.Runners)
	d.match = newMatcher(d.pools, d.rooms)
	d.takeJobs(s.Jobs)
	for _, p := range d.pools {
		d.reap(p)
		d.empty(p)
		d.demand(p)
		d.shrink(p)
		p.cover()
		d.grow(p)
	}
	d.reapStrays()
	d.place()
	for _, p := range d.pools {
		p.reason = d.poolReason(p)
	}
	return d
}

// takeRunners gives each runner to its pool, and its slot to nobody else. The order is by ID, so
// that nothing later depends on the order of the snapshot.
func (d *pass) takeRunners(runners []Runner) {
	byID := make(map[string]*poolWork, len(d.pools))
	for _, p := range d.pools {
		byID[p.ID] = p
	}
	sorted := make([]*Runner, len(runners))
	for i := range runners {
		sorted[i] = &runners[i]
	}
	slices.SortFunc(sorted, func(a, b *Runner) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range sorted {
		if r.State != failed && r.State != removed {
			d.rooms.occupy(r.HostID, 1)
		}
		if p := byID[r.PoolID]; p != nil {
			p.add(r)
			if r.State == busy && d.emptying(r) != nil {
				p.evicted = append(p.evicted, r)
			}
		} else {
			d.strays = append(d.strays, r)
		}
	}
	for _, p := range d.pools {
		p.was = p.live()
	}
}

// queuedJob is a job that waits, and what became of it.
type queuedJob struct {
	*Job
	group *group
	place int // in its pool's queue, from 1
	fate  fate
	host  *room // where its runner is created
}

// fate is what a decision did about a job of a pool.
type fate int

const (
	unanswered fate = iota
	delayed         // by the pool's scale-up delay
	deferred        // by the pool's repository limit
	covered         // a runner that is starting or idle will take it
	answered        // a runner is created for it
)

// takeJobs puts the queued jobs into the queues of their pools, oldest first. A job that is listed
// twice is one job; one that is also listed as in progress is not queued any more.
func (d *pass) takeJobs(jobs []Job) {
	seen := make(map[string]struct{}, len(jobs))
	waiting := make([]age, 0, len(jobs))
	for i := range jobs {
		switch j := &jobs[i]; j.State {
		case queued:
			waiting = append(waiting, age{j.QueuedAt.Unix(), j.QueuedAt.Nanosecond(), i})
		case inProgress:
			if _, dup := seen[j.ID]; dup {
				continue
			}
			seen[j.ID] = struct{}{}
			if p := d.match.group(j).pool; p != nil && p.running != nil {
				p.running[normalise(j.Repository)]++
			}
		}
	}
	slices.SortFunc(waiting, func(a, b age) int {
		if c := cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.nano, b.nano)); c != 0 {
			return c
		}
		return compareCopies(&jobs[a.job], &jobs[b.job])
	})
	d.jobs = make([]queuedJob, 0, len(waiting))
	for _, w := range waiting {
		j := &jobs[w.job]
		if _, dup := seen[j.ID]; dup {
			continue
		}
		seen[j.ID] = struct{}{}
		d.jobs = append(d.jobs, queuedJob{Job: j, group: d.match.group(j)})
	}
	for i := range d.jobs {
		j := &d.jobs[i]
		if p := j.group.pool; p != nil {
			p.queue = append(p.queue, j)
			j.place = len(p.queue)
			continue
		}
		d.unmatched = append(d.unmatched, Unmatched{JobID: j.ID, Reason: j.group.reason, Hosted: j.group.hosted})
	}
}

// age is what jobs are sorted by. It holds no pointers: ten thousand of them move cheaply.
type age struct {
	second int64
	nano   int
	job    int
}

// compareCopies orders jobs of one age by ID. The rest matters only between two copies of one job.
func compareCopies(a, b *Job) int {
	return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Account, b.Account),
		strings.Compare(a.Repository, b.Repository), slices.Compare(a.Labels, b.Labels))
}

// plan lists what was decided, in the order of the kinds.
func (d *pass) plan() Plan {
	plan := Plan{
		Actions:   slices.Concat(d.removes, d.fails, d.retires, d.withdraws, d.drains),
		Pools:     make([]PoolDecision, 0, len(d.pools)),
		Unmatched: d.unmatched,
	}
	plan.Actions = slices.Grow(plan.Actions, len(d.creates))
	for _, c := range d.creates {
		a := Action{Kind: Create, PoolID: c.pool.ID, HostID: c.room.ID, Reason: c.pool.reason}
		if c.job != nil {
			a.JobID = c.job.ID
		}
		plan.Actions = append(plan.Actions, a)
	}
	for _, p := range d.pools {
		plan.Pools = append(plan.Pools, PoolDecision{
			PoolID: p.ID, Live: p.was, Desired: p.desired, Queued: len(p.queue),
			Reason: p.reason, Blocked: d.blocked(p),
		})
		if p.stop == stopHosts && p.want > 0 {
			plan.Needs = append(plan.Needs, p.need())
		}
	}
	return plan
}
