package engine

import (
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/cgroup"
)

// Samples are taken from the kernel, which costs next to nothing, where a container is on this
// machine: its main process is asked of the engine once. Now, the clock, is set before the
// first use.
type Samples struct {
	Now func() time.Time

	mu   sync.Mutex
	pids map[string]int // main process by container
}

// Known samples a container whose main process is known, and is false when that cannot be done.
func (s *Samples) Known(id string) (backend.Stats, bool) {
	s.mu.Lock()
	pid, known := s.pids[id]
	s.mu.Unlock()
	if !known {
		return backend.Stats{}, false
	}
	out, err := s.read(pid, id)
	return out, err == nil
}

// Take samples a container of that main process, and remembers the process.
func (s *Samples) Take(pid int, id string) (backend.Stats, error) {
	out, err := s.read(pid, id)
	if err != nil {
		return backend.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pids == nil {
		s.pids = map[string]int{}
	}
	s.pids[id] = pid
	return out, nil
}

// Forget a container that has been removed.
func (s *Samples) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pids, id)
}

// Keep only what is there.
func (s *Samples) Keep(present []backend.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	Keep(s.pids, present)
}

func (s *Samples) read(pid int, id string) (backend.Stats, error) {
	u, err := cgroup.Read(pid, id)
	if err != nil {
		return backend.Stats{}, err
	}
	return backend.Stats{At: s.Now(), CPUTime: u.CPUTime, MemoryMB: u.MemoryBytes >> 20}, nil
}

// Keep drops from a map by container what is not present.
func Keep[V any](of map[string]V, present []backend.Workload) {
	keep := make(map[string]struct{}, len(present))
	for _, w := range present {
		keep[w.ID] = struct{}{}
	}
	for id := range of {
		if _, ok := keep[id]; !ok {
			delete(of, id)
		}
	}
}
