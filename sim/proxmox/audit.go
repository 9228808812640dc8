package proxmox

import (
	"slices"
	"time"
)

// Change is something that was done to a machine.
type Change struct {
	At     time.Time
	VMID   int
	Name   string // as it was called then
	Who    string // user or token; Human for somebody at the console
	Action string // create, clone, config, resize, template, start, stop, shutdown, destroy, migrate, …
	Task   string // the UPID; empty for what had no task
	Maker  string // who made the machine
}

// Human is who acts at the console.
const Human = "human"

// change notes what was done. Called under mu.
func (s *Server) change(v *vm, who, action, upid string) {
	s.changes = append(s.changes, Change{At: s.clock.Now(), VMID: v.id, Name: v.name(), Who: who, Action: action, Task: upid, Maker: v.by})
	s.touch()
}

// Changes are everything that was done to machines since the beginning, in order. What was refused or failed is not among them.
func (s *Server) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// Trespasses are the changes that somebody who is not human has made to machines that a human made, since the last of them was made.
func (s *Server) Trespasses() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Change
	for _, c := range s.changes {
		if c.Maker == Human && c.Who != Human {
			out = append(out, c)
		}
	}
	return out
}

// Requests are all requests so far, in the order in which they were answered.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}
