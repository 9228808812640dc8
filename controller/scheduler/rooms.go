package scheduler

import (
	"cmp"
	"slices"
	"strings"
)

// room is a host while a decision is made.
type room struct {
	*Host
	order    int // place by name
	os, arch string
	backends []string
	free     int // slots; below zero when its capacity was lowered under its runners
}

// rooms are the hosts, by name and by ID.
type rooms struct {
	byName []*room
	byID   map[string]*room
}

func newRooms(s *Snapshot) rooms {
	all := make([]room, len(s.Hosts))
	r := rooms{byName: make([]*room, len(s.Hosts)), byID: make(map[string]*room, len(s.Hosts))}
	for i := range s.Hosts {
		h := &all[i]
		h.Host = &s.Hosts[i]
		h.os, h.arch, h.free = osName(h.OS), archName(h.Arch), max(h.Capacity, 0)
		h.backends = make([]string, len(h.Backends))
		for n, b := range h.Backends {
			h.backends[n] = normalise(b)
		}
		r.byName[i] = h
	}
	slices.SortFunc(r.byName, func(a, b *room) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	for i, h := range r.byName {
		h.order = i
		r.byID[h.ID] = h
	}
	return r
}

// occupy takes slots of a host, or with a negative number gives them back. A host that is gone has none.
func (r rooms) occupy(id string, slots int) {
	if h := r.byID[id]; h != nil {
		h.free -= slots
	}
}
