package engine

import (
	"sync"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Members remember which runner a container was part of, so that what is left of a runner can
// be removed by the ID of the part that is gone. The zero value is ready.
type Members struct {
	mu      sync.Mutex
	runners map[string]string // by container
}

// Note that container id is part of runner.
func (m *Members) Note(id, runner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runners == nil {
		m.runners = map[string]string{}
	}
	m.runners[id] = runner
}

// Runner that id was part of, or nothing.
func (m *Members) Runner(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runners[id]
}

// Forget runner altogether: it has been removed.
func (m *Members) Forget(runner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, of := range m.runners {
		if of == runner {
			delete(m.runners, id)
		}
	}
}

// See notes what is there.
func (m *Members) See(present []backend.Workload) {
	for _, w := range present {
		m.Note(w.ID, w.RunnerID)
	}
}
