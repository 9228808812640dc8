package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// judgeHosts raises what is wrong with each host and clears what is not, also of hosts that are gone.
func (c *Controller) judgeHosts(hosts []store.Host) {
	there := map[string]bool{}
	for _, h := range hosts {
		there[h.ID] = true
		c.judgeHost(h)
	}
	c.problemsOfThere(problems.OfHost, func(id string) bool { return there[id] })
}

// judgeHost raises what is wrong with a host and clears what is not. Of a lost host nothing else is known any more.
func (c *Controller) judgeHost(h store.Host) {
	lost := !h.LostAt.IsZero()
	c.problems.Is(problems.HostLost, h.ID, lost, func() problems.Problem {
		return problems.Problem{
			Code:  problems.HostLost,
			Title: fmt.Sprintf("Host %s is lost", h.Name),
			Why: fmt.Sprintf("Its agent was last heard from at %s. Its runners were given up, and it gets no others.",
				h.LastHeartbeatAt.UTC().Format(time.DateTime+" UTC")),
			Fix: "Check that the machine runs and reaches this controller, and start its agent. It is taken back at its first heartbeat. If it is gone for good, delete the host.",
		}
	})
	broken := brokenBackends(h)
	c.problems.Is(problems.BackendBroken, h.ID, !lost && len(broken) > 0, func() problems.Problem { return backendProblem(h, broken) })
	c.problems.Is(problems.DiskFull, h.ID, !lost && h.DiskUsed() >= scheduler.DiskDanger, func() problems.Problem {
		return problems.Problem{
			Code:  problems.DiskFull,
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

func backendProblem(h store.Host, broken []store.HostBackend) problems.Problem {
	var names, whys []string
	for _, b := range broken {
		names = append(names, b.Name)
		whys = append(whys, b.Name+": "+b.Error)
	}
	p := problems.Problem{
		Code:  problems.BackendBroken,
		Title: fmt.Sprintf("Host %s cannot use %s", h.Name, strings.Join(names, " and ")),
		Why:   fmt.Sprintf("The probe said: %s. No runner that needs it is placed there, and none is registered for it.", strings.Join(whys, "; ")),
		Fix:   "Look on the host, as the user that its agent runs as, whether the engine runs (`podman info`, `docker info`) and is installed; or take the backend out of the agent's list. It is probed again at each heartbeat.",
	}
	if len(broken) >= len(h.Backends) {
		p.Title = fmt.Sprintf("Host %s can run nothing: it cannot use %s", h.Name, strings.Join(names, " or "))
	}
	return p
}
