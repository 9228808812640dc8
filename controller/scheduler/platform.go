package scheduler

import (
	"maps"
	"slices"
	"strings"
)

// platform is what runs somewhere; none set in a half means that it is unknown.
type platform struct{ os, arch uint8 }

// containers are the backends whose workloads are Linux whatever their host is.
var containers = map[string]bool{"podman": true, "docker": true}

// infer fills in what a pool does not say of its platform. A runner is Linux, unless it is a process of a host that is
// something else; its architecture is that of the hosts that may hold it, healthy or not. So a job for Windows is not given
// to a pool that has merely not said that it is not Windows. found keeps answers by shape.
func (p *poolWork) infer(hosts rooms, found map[string]platform) {
	if p.os != 0 && p.arch != 0 {
		return
	}
	id := shapeID(p)
	on, known := found[id]
	if !known {
		on = shapeOf(p).platform(hosts)
		found[id] = on
	}
	if p.os == 0 {
		p.os = on.os
	}
	if p.arch == 0 {
		p.arch = on.arch
	}
}

// platform is what the hosts of a shape run. One that has not said what it is may be anything.
func (s *shape) platform(hosts rooms) platform {
	var on platform
	anything := platform{}
	for _, h := range hosts.byName {
		if !s.holds(h) {
			continue
		}
		on.os |= platformBits(h.os, osBits, 0)
		on.arch |= platformBits(h.arch, archBits, 0)
		if h.os == "" {
			anything.os = ^uint8(0)
		}
		if h.arch == "" {
			anything.arch = ^uint8(0)
		}
	}
	if containers[s.backend] || on.os|anything.os == 0 {
		on.os, anything.os = osBits["linux"], 0
	}
	return platform{on.os &^ anything.os, on.arch &^ anything.arch}
}

// holds says whether a host is of the kind that the shape asks for.
func (s *shape) holds(h *room) bool {
	for _, fit := range fits[:fitsByKind] {
		if fit(nil, s, h) != "" {
			return false
		}
	}
	return true
}

// platformNames is what is known of a pool's platform, for people.
func platformNames(p *poolWork) string {
	parts := slices.Concat(halfNames(osName(p.OS), p.os, osBits), halfNames(archName(p.Arch), p.arch, archBits))
	return strings.Join(parts, "/")
}

func halfNames(field string, known uint8, bits map[string]uint8) []string {
	if field != "" {
		return []string{field}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(bits)) {
		if known&bits[name] != 0 {
			names = append(names, name)
		}
	}
	return names
}
