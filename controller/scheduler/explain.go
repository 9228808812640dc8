package scheduler

import (
	"fmt"
	"time"
)

// Wait is why a job waits, in one word for programs.
type Wait string

// The reasons for which a job waits.
const (
	WaitNotQueued Wait = "not_queued"       // the snapshot has no such queued job
	WaitHosted    Wait = "hosted"           // GitHub's own machines serve it
	WaitUnmatched Wait = "unmatched"        // no pool takes it
	WaitDelay     Wait = "scale_up_delay"   // its pool waits before it answers a job
	WaitRepoLimit Wait = "repository_limit" // its repository has its share of the pool
	WaitRunner    Wait = "runner_coming"    // a runner is starting or idle for it
	WaitCreate    Wait = "creating"         // this decision creates its runner
	WaitMax       Wait = "pool_at_max"
	WaitDraining  Wait = "draining" // the pool is at its maximum until draining runners are gone
	WaitPaused    Wait = "paused"   // somebody has paused its pool, or the whole queue
	WaitHeld      Wait = "held"
	WaitBackoff   Wait = "backoff"
	WaitBudget    Wait = "budget" // the next decision goes on
	WaitFull      Wait = "full"   // every host that fits is full
	WaitNoHost    Wait = "no_host"
)

// Explanation says why a job waits and what would have to change.
type Explanation struct {
	JobID    string
	Wait     Wait
	PoolID   string // the pool that takes the job; empty when none does
	Pool     string // its name
	Position int    // in the pool's queue, 1 is next; 0 when it is in none
	Queued   int    // length of that queue
	HostID   string // where its runner is created, with WaitCreate
	Why      string // one sentence
	Change   string // what has to happen, one sentence
	Until    time.Time
	Blocked  *Blocked      // of its pool
	Pools    []PoolVerdict // every pool of its account, sorted by name
}

// PoolVerdict says whether one pool could take a job.
type PoolVerdict struct {
	PoolID, Name string
	Takes        bool   // it would, if it were the best
	Why          string // what keeps it from the job, or why another is better; empty for the pool that takes it
}

// Explain says why a job waits, as Decide would see it. Pure, as Decide is.
func Explain(s Snapshot, jobID string) Explanation {
	d := decide(&s)
	for i := range d.jobs {
		if j := &d.jobs[i]; j.ID == jobID {
			return d.explain(j)
		}
	}
	e := Explanation{JobID: jobID, Wait: WaitNotQueued, Why: "no such job is queued",
		Change: "Nothing waits: it has started, is over, or has never been reported to us."}
	for i := range s.Jobs {
		if s.Jobs[i].ID == jobID && s.Jobs[i].State == inProgress {
			e.Why, e.Change = "the job is in progress", "Nothing: it has its runner."
		}
	}
	return e
}

func (d *pass) explain(j *queuedJob) Explanation {
	e := Explanation{JobID: j.ID, Pools: d.verdicts(j)}
	p := j.group.pool
	if p == nil {
		d.explainUnmatched(j, &e)
		return e
	}
	e.PoolID, e.Pool, e.Position, e.Queued = p.ID, p.Name, j.place, len(p.queue)
	e.Blocked = d.blocked(p)
	if p.Paused != nil && (j.fate == delayed || j.fate == unanswered) {
		// Whatever else it waits for, this comes first.
		e.Wait, e.Why, e.Change = WaitPaused, p.Paused.why(p.Name), p.Paused.fix(p.Name)
		return e
	}
	switch j.fate {
	case delayed:
		e.Wait, e.Until = WaitDelay, j.QueuedAt.Add(p.ScaleUpDelay)
		e.Why = fmt.Sprintf("pool %s answers a job when it has waited for %s", p.Name, span(p.ScaleUpDelay))
		e.Change = fmt.Sprintf("In %s its turn comes; a shorter scale-up delay would bring it sooner.", span(e.Until.Sub(d.now)))
	case deferred:
		e.Wait = WaitRepoLimit
		e.Why = fmt.Sprintf("%s may hold %s of pool %s at once", j.Repository, count(p.RepoLimit, "runner"), p.Name)
		e.Change = "A job of that repository has to finish, or the pool's repository limit be raised."
	case covered:
		e.Wait = WaitRunner
		e.Why = fmt.Sprintf("pool %s has a runner that is starting or idle for it", p.Name)
		e.Change = "Nothing: GitHub gives it to a runner as soon as one is online."
	case answered:
		e.Wait, e.HostID = WaitCreate, j.host.ID
		e.Why = fmt.Sprintf("a runner of pool %s is about to be created for it on host %s", p.Name, j.host.Name)
		e.Change = "Nothing: its runner is on the way."
	case unanswered:
		d.explainUnanswered(p, &e)
	}
	return e
}

func (d *pass) explainUnmatched(j *queuedJob, e *Explanation) {
	e.Wait, e.Why = WaitUnmatched, j.group.reason
	e.Change = "Add its labels to a pool that serves its repository, enable such a pool, or change the labels in the workflow."
	if j.group.hosted {
		e.Wait = WaitHosted
		e.Change = "Nothing: GitHub runs it. To run it here, ask for self-hosted and the labels of a pool."
	}
}

// explainUnanswered is about a job that should have a runner now and gets none.
func (d *pass) explainUnanswered(p *poolWork, e *Explanation) {
	short := p.short - p.created
	if short <= 0 { // the pool has, or is getting, all that its maximum allows
		e.Wait = WaitMax
		e.Why = fmt.Sprintf("pool %s may have no more than %s", p.Name, count(p.max(), "runner"))
		e.Change = fmt.Sprintf("One of its runners has to finish, or the maximum of pool %s be raised.", p.Name)
		return
	}
	e.Why, e.Until = fmt.Sprintf("pool %s: %s", p.Name, d.shortReason(p, short)), p.stopUntil
	if e.Blocked != nil {
		e.Change = e.Blocked.Fix
	}
	switch p.stop {
	case stopHeld:
		e.Wait = WaitHeld
	case stopBackoff:
		e.Wait = WaitBackoff
	case stopLeaving:
		e.Wait = WaitDraining
	case stopBudget:
		e.Wait = WaitBudget
		e.Change = "Nothing: the next pass goes on where this one stopped."
	case notStopped, stopPaused, stopHosts: // of a paused pool was spoken above
		e.Wait = WaitNoHost
		if e.Blocked.AtCapacity {
			e.Wait = WaitFull
		}
	}
}

// verdicts says of every pool of the job's account whether it could take the job.
func (d *pass) verdicts(j *queuedJob) []PoolVerdict {
	var out []PoolVerdict
	for _, p := range d.pools {
		if p.Account != j.Account {
			continue
		}
		v := PoolVerdict{PoolID: p.ID, Name: p.Name}
		switch {
		case p.Repository != "" && normalise(p.Repository) != normalise(j.Repository):
			v.Why = "serves only " + p.Repository
		case !j.group.takes(p):
			v.Why = j.group.misses(p, d.match)
		case !p.Enabled:
			v.Why = "is disabled"
		default:
			v.Takes = true
			if p != j.group.pool {
				v.Why = fmt.Sprintf("could take it, but pool %s fits more closely", j.group.pool.Name)
			}
		}
		out = append(out, v)
	}
	return out
}
