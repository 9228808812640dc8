package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// poolWork is a pool while a decision about it is made.
type poolWork struct {
	*Pool
	order int // place by name

	// What it offers to jobs.
	offer    words
	labels   labelSet
	os, arch uint8 // what it runs on, as far as that is known

	// Its runners, by what they are to the decision.
	starting, idle []*Runner
	failed         []*Runner
	busy           int
	evicted        []*Runner      // busy ones whose host is told to empty
	leaving        int            // draining: it still holds a slot and a place under the maximum
	busyBy         map[string]int // by repository, only with a repository limit
	was            int            // live runners in the snapshot

	// Its jobs.
	queue    []*queuedJob
	running  map[string]int // jobs in progress by repository, only with a repository limit
	eligible []*queuedJob
	answers  []*queuedJob // eligible jobs that no runner is coming for
	delayed  int          // jobs that wait for the scale-up delay
	deferred int          // jobs over the repository limit

	// What is decided.
	failures  int
	failedAt  time.Time // of the last failure
	desired   int
	want      int // creates that are still to be placed
	created   int
	shape     *shape
	stop      stop // why want is not zero at the end
	stopUntil time.Time
	short     int // runners that are desired and not created
	reason    string
}

// stop is what ended a pool's creates.
type stop int

const (
	notStopped stop = iota
	stopPaused
	stopHeld
	stopBackoff
	stopLeaving
	stopBudget
	stopHosts
)

func newPools(s *Snapshot) []*poolWork {
	all := make([]poolWork, len(s.Pools))
	pools := make([]*poolWork, len(s.Pools))
	for i := range s.Pools {
		p := &all[i]
		p.Pool = &s.Pools[i]
		p.offer = parseLabels(p.Labels)
		if p.RepoLimit > 0 {
			p.busyBy, p.running = map[string]int{}, map[string]int{}
		}
		pools[i] = p
	}
	slices.SortFunc(pools, func(a, b *poolWork) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	for i, p := range pools {
		p.order = i
	}
	return pools
}

// max is the most runners the pool may have. A minimum above it does not lift it.
func (p *poolWork) max() int { return max(p.Max, 0) }

// live counts the runners that can take a job or have one.
func (p *poolWork) live() int { return len(p.starting) + len(p.idle) + p.busy }

// add counts a runner among the pool's.
func (p *poolWork) add(r *Runner) {
	switch r.State {
	case provisioning, registering:
		p.starting = append(p.starting, r)
	case idle:
		p.idle = append(p.idle, r)
	case busy:
		p.busy++
		if p.busyBy != nil {
			p.busyBy[normalise(r.Repository)]++
		}
	case failed:
		p.failed = append(p.failed, r)
	case removed:
	default: // draining, and any state that this version does not know: hands off
		p.leaving++
	}
}
