package controller

import (
	"sync"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// links knows the jobs of which it is being written right now that a runner has them. A job's new state and the link to its
// runner are two writes; a decision that read around them would see a runner without a job, or a job without a
// runner, and take away or create one too many.
type links struct {
	mu        sync.Mutex
	active    map[link]int
	listeners map[*linking]struct{}
}

// link is a job, by repository and GitHub's number, and the name of the runner that has it. Not by installation: an organisation that
// is served through two Apps has each job told of twice, and it is one job.
type link struct {
	repository string
	job        int64
	runner     string
}

// linking collects what was being written at any moment since listen.
type linking struct {
	l    *links
	seen map[link]bool
}

// linked is what was collected.
type linked struct {
	runners map[string]bool // by name
	jobs    map[linkedJob]bool
}

type linkedJob struct {
	repository string
	job        int64
}

func newLinks() *links { return &links{active: map[link]int{}, listeners: map[*linking]struct{}{}} }

// begin says that u is being taken in, until the returned function is called.
func (l *links) begin(u store.JobUpdate) (end func()) {
	if u.RunnerName == "" || u.State != store.JobInProgress && u.State != store.JobCompleted {
		return func() {}
	}
	k := link{u.Repository, u.GitHubID, u.RunnerName}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active[k]++
	for x := range l.listeners {
		x.seen[k] = true
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.active[k]--; l.active[k] == 0 {
			delete(l.active, k)
		}
	}
}

// listen begins to collect; stop ends that.
func (l *links) listen() *linking {
	x := &linking{l: l, seen: map[link]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.active {
		x.seen[k] = true
	}
	l.listeners[x] = struct{}{}
	return x
}

func (x *linking) stop() linked {
	x.l.mu.Lock()
	defer x.l.mu.Unlock()
	delete(x.l.listeners, x)
	out := linked{map[string]bool{}, map[linkedJob]bool{}}
	for k := range x.seen {
		out.runners[k.runner] = true
		out.jobs[linkedJob{k.repository, k.job}] = true
	}
	return out
}
