package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// hostProblems are the codes of what can be wrong with a host.
var hostProblems = []string{ProblemHostLost, ProblemBackendBroken, ProblemDiskFull}

// judgeHosts raises what is wrong with each host and clears what is not, also of hosts that are gone.
func (c *Controller) judgeHosts(hosts []store.Host) {
	there := map[string]bool{}
	for _, h := range hosts {
		there[h.ID] = true
		c.judgeHost(h)
	}
	for _, code := range hostProblems {
		for _, id := range c.problems.subjects(code) {
			if !there[id] {
				c.problems.clear(code, id)
			}
		}
	}
}

// judgeHost raises what is wrong with a host and clears what is not. Of a lost host nothing else is known any more.
func (c *Controller) judgeHost(h store.Host) {
	lost := !h.LostAt.IsZero()
	c.problems.is(ProblemHostLost, h.ID, lost, func() Problem {
		return Problem{
			Code:  ProblemHostLost,
			Title: fmt.Sprintf("Host %s is lost", h.Name),
			Why: fmt.Sprintf("Its agent was last heard from at %s. Its runners were given up, and it gets no others.",
				h.LastHeartbeatAt.UTC().Format(time.DateTime+" UTC")),
			Fix: "Check that the machine runs and reaches this controller, and start its agent. It is taken back at its first heartbeat. If it is gone for good, delete the host.",
		}
	})
	broken := brokenBackends(h)
	c.problems.is(ProblemBackendBroken, h.ID, !lost && len(broken) > 0, func() Problem { return backendProblem(h, broken) })
	c.problems.is(ProblemDiskFull, h.ID, !lost && h.DiskUsed() >= scheduler.DiskDanger, func() Problem {
		return Problem{
			Code:  ProblemDiskFull,
			Title: fmt.Sprintf("Host %s takes no new runners: its disk is %d %% full", h.Name, h.DiskUsed()),
			Why: fmt.Sprintf("%d of %d MiB are free on the fullest of the filesystems that its runners write to, and from %d %% on nothing is started there. Running jobs go on. Images that were fetched for runners and are not in use have been evicted already.",
				h.DiskFreeMB, h.DiskTotalMB, scheduler.DiskDanger),
			Fix: "Free space on the host: `df` shows the filesystem, `podman system df` what the engine keeps (images that you brought yourself are never evicted). Or give it a larger disk. It takes runners again by itself.",
		}
	})
}

// brokenBackends are the backends of a host that cannot be used.
func brokenBackends(h store.Host) (broken []store.HostBackend) {
	for _, b := range h.Backends {
		if b.Error != "" {
			broken = append(broken, b)
		}
	}
	if len(h.Backends) == 0 {
		broken = append(broken, store.HostBackend{Name: "any backend", Error: "its agent named none"})
	}
	return broken
}

func backendProblem(h store.Host, broken []store.HostBackend) Problem {
	var names, whys []string
	for _, b := range broken {
		names = append(names, b.Name)
		whys = append(whys, b.Name+": "+b.Error)
	}
	p := Problem{
		Code:  ProblemBackendBroken,
		Title: fmt.Sprintf("Host %s cannot use %s", h.Name, strings.Join(names, " and ")),
		Why:   fmt.Sprintf("The probe said: %s. No runner that needs it is placed there, and none is registered for it.", strings.Join(whys, "; ")),
		Fix:   "Look on the host, as the user that its agent runs as, whether the engine runs (`podman info`, `docker info`) and is installed; or take the backend out of the agent's list. It is probed again at each heartbeat.",
	}
	if len(broken) >= len(h.Backends) {
		p.Title = fmt.Sprintf("Host %s can run nothing: it cannot use %s", h.Name, strings.Join(names, " or "))
	}
	return p
}
