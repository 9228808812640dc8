package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// blocked says what keeps a pool from the runners that it should have. A spent budget is not a
// block: the next decision goes on.
func (d *pass) blocked(p *poolWork) *Blocked {
	short := p.short - p.created
	if short <= 0 {
		return nil
	}
	b := &Blocked{Wanted: short, Until: p.stopUntil}
	switch p.stop {
	case stopPaused:
		b.Paused = true
		b.Fix = p.Paused.fix(p.Name)
	case stopHeld:
		b.Fix = "Nothing to do but wait until the hold is over: " + p.Held + "."
	case stopBackoff:
		b.Fix = fmt.Sprintf("Read why %s of pool %s failed and mend the cause; the next attempt is at %s.",
			count(p.failures, "runner"), p.Name, b.Until.UTC().Format(time.TimeOnly+" UTC"))
	case stopLeaving:
		b.AtCapacity = true
		b.Fix = fmt.Sprintf("Wait for the draining runners to exit, or raise the maximum of %d.", p.max())
	case stopHosts:
		b.Causes, b.Backends = p.shape.all(), p.shape.others
		b.AtCapacity = len(p.shape.fitting) > 0
		b.Fix = p.shape.fix()
	case notStopped, stopBudget:
		return nil
	}
	return b
}

// need is what a pool wants of hosts that are not there.
func (p *poolWork) need() Need {
	n := Need{PoolID: p.ID, Slots: p.want, OS: goWord(p.shape.os), Arch: goWord(p.shape.arch), Backend: p.shape.backend, Selector: p.HostSelector}
	if j := p.next(); j != nil {
		n.Since = j.QueuedAt
	}
	return n
}

// goWord is Go's word for a platform that GitHub has another one for.
func goWord(word string) string {
	switch word {
	case "x64":
		return "amd64"
	case "macos":
		return "darwin"
	default:
		return word
	}
}

// all counts every host by its cause, the most frequent first. When a shape has run out of room, the hosts that fit
// it are full.
func (s *shape) all() []Cause {
	causes := make([]Cause, 0, len(s.causes)+1)
	for what, n := range s.causes {
		causes = append(causes, Cause{what, n})
	}
	if n := len(s.fitting); n > 0 {
		causes = append(causes, Cause{causeFull, n})
	}
	slices.SortFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), strings.Compare(a.What, b.What))
	})
	return causes
}

// fix advises on the cause that is nearest to being mended: ten hosts of another platform matter less
// than the one that is only cordoned.
func (s *shape) fix() string {
	switch n := s.causes; {
	case n[causeCordoned] == 1:
		return "Uncordon the one host that would fit."
	case n[causeCordoned] > 1:
		return fmt.Sprintf("Uncordon one of the %s that would fit.", count(n[causeCordoned], "cordoned host"))
	case n[causeDraining] > 0:
		return fmt.Sprintf("Uncordon %s that would fit and is being drained, or join another host.", count(n[causeDraining], "host"))
	case n[causeUnhealthy]+n[causeLost] > 0:
		return fmt.Sprintf("Bring back %s whose agent has gone silent: check its power, its network and the agent.",
			count(n[causeUnhealthy]+n[causeLost], "host"))
	case n[causeDisk] == 1:
		return fmt.Sprintf("Free space on host %s: its disk is %d %% full, and from %d %% on a host takes no new runner. It takes them again by itself.",
			s.noSpace[0].Name, s.noSpace[0].DiskUsed, DiskDanger)
	case n[causeDisk] > 1:
		return fmt.Sprintf("Free space on one of %d hosts, such as %s: its disk is %d %% full, and from %d %% on a host takes no new runner. It takes them again by itself.",
			n[causeDisk], s.noSpace[0].Name, s.noSpace[0].DiskUsed, DiskDanger)
	case len(s.fitting) > 0:
		return "Wait for a runner to finish, raise the capacity of a host, or join another host."
	case n[s.lacksBackend()] > 0 && len(s.others) > 0:
		return fmt.Sprintf("Install %s on a host, or move the pool to %s, which fitting hosts offer.",
			s.backend, strings.Join(s.others, " or "))
	case n[s.lacksBackend()] > 0:
		return fmt.Sprintf("Make %s usable on a host.", s.backend)
	case n[causeSelector] > 0:
		return fmt.Sprintf("Label a host %s, or change the pool's host selector.", s.wantedLabels())
	case n[causePlatform] > 0:
		return fmt.Sprintf("Join a host of platform %s, or change the pool's.", strings.Trim(s.os+"/"+s.arch, "/"))
	default:
		return "Join a host: the fleet has none."
	}
}

func (s *shape) wantedLabels() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.selector)) {
		parts = append(parts, k+"="+s.selector[k])
	}
	return strings.Join(parts, ", ")
}
