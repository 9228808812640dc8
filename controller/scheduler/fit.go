package scheduler

import (
	"maps"
	"slices"
	"strings"
)

// What keeps a host from serving a pool. A missing backend is "no " and its name.
const (
	causePlatform  = "platform"
	causeSelector  = "selector"
	causeDraining  = "draining"
	causeCordoned  = "cordoned"
	causeLost      = "lost"
	causeUnhealthy = "unhealthy"
	causeDisk      = "disk full"
	causeFull      = "full"
)

// shape is what pools ask of a host. Pools that ask for the same share one.
type shape struct {
	os, arch string
	backend  string
	selector map[string]string
	fitting  ranking        // hosts that could serve if they have a free slot
	causes   map[string]int // the others, counted by what keeps each from serving
	noSpace  []*room        // those of them whose disk is full, by name
	others   []string       // backends of hosts that lack nothing but this one; sorted
}

// fitsByKind is how many of fits ask what a host is. The others ask how it is now.
const fitsByKind = 3

// fits is the chain of checks that a host goes through, from what it is to how it is. The first
// that objects names the cause. Free slots are not among them: those change while runners are placed.
var fits = []func(*pass, *shape, *room) string{
	func(_ *pass, s *shape, h *room) string {
		// Whoever names no platform constrains nothing, so naming one can only narrow.
		if s.os != "" && h.os != "" && s.os != h.os || s.arch != "" && h.arch != "" && s.arch != h.arch {
			return causePlatform
		}
		return ""
	},
	func(_ *pass, s *shape, h *room) string {
		for k, v := range s.selector {
			if have, ok := h.Labels[k]; !ok || have != v {
				return causeSelector
			}
		}
		return ""
	},
	func(_ *pass, s *shape, h *room) string {
		if s.backend != "" && !slices.Contains(h.backends, s.backend) {
			return s.lacksBackend()
		}
		return ""
	},
	func(_ *pass, _ *shape, h *room) string {
		if h.Draining {
			return causeDraining
		}
		if h.Cordoned {
			return causeCordoned
		}
		return ""
	},
	func(_ *pass, _ *shape, h *room) string {
		if h.Lost {
			return causeLost
		}
		return ""
	},
	func(d *pass, _ *shape, h *room) string {
		if d.silent(h) {
			return causeUnhealthy
		}
		return ""
	},
	func(_ *pass, _ *shape, h *room) string {
		if h.DiskFull() {
			return causeDisk
		}
		return ""
	},
}

// DiskFull says that the host takes no new runner until its disk has room again. What runs there goes on.
func (h *Host) DiskFull() bool { return h.DiskUsed >= DiskDanger }

// silent reports whether a host's agent has missed its heartbeats.
func (d *pass) silent(h *room) bool { return d.now.Sub(h.LastHeartbeat) >= d.set.HeartbeatTimeout }

func (s *shape) lacksBackend() string { return "no " + s.backend }

// shapes gives each pool its shape, and sorts the hosts for each when it is first asked for.
type shapes map[string]*shape

func (x shapes) of(d *pass, p *poolWork) *shape {
	id := shapeID(p)
	if s := x[id]; s != nil {
		return s
	}
	s := shapeOf(p)
	s.sort(d)
	x[id] = s
	return s
}

// shapeID is the same for pools that ask for the same.
func shapeID(p *poolWork) string {
	var id strings.Builder
	put := func(parts ...string) {
		for _, part := range parts {
			id.WriteString(part)
			id.WriteByte(0)
		}
	}
	put(osName(p.OS), archName(p.Arch), normalise(p.Backend))
	for _, k := range slices.Sorted(maps.Keys(p.HostSelector)) {
		put(k, p.HostSelector[k])
	}
	return id.String()
}

func shapeOf(p *poolWork) *shape {
	return &shape{os: osName(p.OS), arch: archName(p.Arch), backend: normalise(p.Backend), selector: p.HostSelector, causes: map[string]int{}}
}

// sort takes each host in, or counts what keeps it out.
func (s *shape) sort(d *pass) {
	s.fitting = make(ranking, 0, len(d.rooms.byName))
	offers := map[string]bool{}
	for _, h := range d.rooms.byName {
		switch cause := s.cause(d, h); {
		case cause == "":
			s.fitting = append(s.fitting, spot{h, h.free})
		default:
			s.causes[cause]++
			if cause == causeDisk {
				s.noSpace = append(s.noSpace, h)
			}
			if cause == s.lacksBackend() && !h.Draining && !h.Cordoned && !h.Lost && !d.silent(h) {
				for _, b := range h.backends {
					offers[b] = true
				}
			}
		}
	}
	s.others = slices.Sorted(maps.Keys(offers))
	s.fitting.build()
}

func (s *shape) cause(d *pass, h *room) string {
	for _, fit := range fits {
		if cause := fit(d, s, h); cause != "" {
			return cause
		}
	}
	return ""
}
