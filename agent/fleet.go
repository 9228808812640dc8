package agent

import (
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// tombstoneFor is how long a runner that was removed is remembered, so that a list taken
// before its removal does not bring it back.
const tombstoneFor = 10 * time.Minute

// tracked is one runner as this host knows it.
type tracked struct {
	id, backend, name string
	workload          string // "" until its create succeeded
	starting          bool   // a create is in a slot
	announced         bool   // the controller need not be told "registering" any more
	settled           bool   // and has been told the bare phase since
	stopAsked         bool   // the controller asked for its end
	createdPhase      bool   // the engine has it, made but not started
	startedAt         time.Time
	firstSeen         time.Time
	missingSince      time.Time // first list without it
	disclaimed        time.Time // since when the controller calls a live runner ended or unknown
	orphan            bool      // and said so again after OrphanGrace
	end               *ending   // nil while it lives
	ackAt             time.Time // when the controller had recorded the end
	removing          bool
	gone              bool // nothing is left of it on the host
	goneAt            time.Time
}

// ending is how a runner ended.
type ending struct {
	state   string // removed or failed
	exit    *int
	oom     bool
	message string
}

// The states that an agent reports, in the controller's words.
const (
	stateRegistering = "registering"
	stateRemoved     = "removed"
	stateFailed      = "failed"
)

// fleet is the set of runners of this host, in memory. It holds no lock while it waits for
// anything.
type fleet struct {
	now    func() time.Time
	mu     sync.Mutex
	byID   map[string]*tracked
	buried map[string]time.Time // removed runners, by ID
}

func newFleet(now func() time.Time) *fleet {
	return &fleet{now: now, byID: map[string]*tracked{}, buried: map[string]time.Time{}}
}

// with runs fn on a runner, if it is known, under the lock.
func (f *fleet) with(id string, fn func(*tracked)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byID[id]
	if t == nil {
		return false
	}
	fn(t)
	return true
}

// get returns a copy of a runner.
func (f *fleet) get(id string) (tracked, bool) {
	var c tracked
	ok := f.with(id, func(t *tracked) { c = *t })
	return c, ok
}

// begin notes that a create of this runner is in a slot.
func (f *fleet) begin(id, backendName, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byID[id]
	if t == nil {
		t = &tracked{id: id, backend: backendName, name: name, firstSeen: f.now()}
		f.byID[id] = t
	}
	t.starting = true
}

// abort notes that the create failed. A runner that was known by its workload stays known.
func (f *fleet) abort(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.byID[id]; t != nil {
		t.starting = false
		if t.workload == "" {
			delete(f.byID, id)
		}
	}
}

// created notes that the create succeeded, by making w or by finding it.
func (f *fleet) created(id, backendName string, w backend.Workload) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byID[id]
	if t == nil {
		t = &tracked{id: id, firstSeen: f.now()}
		f.byID[id] = t
	}
	if t.workload != w.ID {
		// Another workload than the one known before: nothing said of that holds for it.
		*t = tracked{id: id, firstSeen: f.now()}
	}
	t.backend, t.name, t.workload, t.startedAt = backendName, w.Name, w.ID, w.StartedAt
	t.starting, t.createdPhase, t.missingSince = false, false, time.Time{}
	delete(f.buried, id)
}

// finished notes how a runner ended, once.
func (f *fleet) finished(id string, e ending) bool {
	var first bool
	f.with(id, func(t *tracked) {
		if first = t.end == nil; first {
			t.end = &e
		}
	})
	return first
}

// removed notes that nothing is left of a runner on the host.
func (f *fleet) removed(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buried[id] = f.now()
	if t := f.byID[id]; t != nil {
		t.gone, t.removing, t.goneAt = true, false, f.now()
	}
}

// forget drops what needs no report any more: gone, and its end acknowledged or long ago.
func (f *fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for id, t := range f.byID {
		if t.gone && now.Sub(t.goneAt) >= ResultTimeout {
			delete(f.byID, id)
		}
	}
	for id, at := range f.buried {
		if now.Sub(at) >= tombstoneFor {
			delete(f.buried, id)
		}
	}
}

// alive returns copies of the runners whose workload was started and has not ended.
func (f *fleet) alive() []tracked {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ts []tracked
	for _, t := range f.byID {
		if t.workload != "" && t.end == nil && !t.gone && !t.createdPhase {
			ts = append(ts, *t)
		}
	}
	return ts
}

// report says what is to be said of t.
func (t *tracked) report() protocol.RunnerReport {
	r := protocol.RunnerReport{RunnerID: t.id, WorkloadID: t.workload, Phase: protocol.PhaseRunning}
	switch {
	case t.end != nil:
		r.Phase, r.State = protocol.PhaseExited, t.end.state
		r.ExitCode, r.OOMKilled, r.Message = t.end.exit, t.end.oom, t.end.message
		if t.gone {
			r.Phase = protocol.PhaseMissing
		}
	case !t.settled:
		r.State = stateRegistering
	}
	return r
}
