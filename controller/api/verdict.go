package api

import (
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/problems"
)

// The levels of a status.
const (
	statusOK        = "ok"
	statusAttention = "attention"
	statusBroken    = "broken"
)

// verdict judges a fleet: the worst thing first, and what goes on when nothing is wrong.
func verdict(s Status, seen []FleetProblem) (level, sentence string) {
	worst := func(sev problems.Severity) string {
		for _, p := range seen {
			if p.Severity == string(sev) {
				return strings.TrimSuffix(p.Title, ".")
			}
		}
		return ""
	}
	usable := s.Hosts == nil || s.Hosts.Healthy > 0
	switch {
	case s.Problems.Error > 0:
		return statusBroken, counted(s.Problems.Error, "error") + ": " + worst(problems.Error) + others(s.Problems.Error) + "."
	case !usable && s.Jobs.Queued > 0:
		return statusBroken, fmt.Sprintf("%s and no host can take one: %s.", wait(s.Jobs.Queued), hostWords(*s.Hosts))
	case s.Problems.Warning > 0:
		return statusAttention, counted(s.Problems.Warning, "warning") + ": " + worst(problems.Warning) + others(s.Problems.Warning) + "."
	case len(s.Installations) == 0 && s.Pools.Total == 0:
		return statusAttention, "Nothing is connected yet: add a GitHub App's installation, then a pool."
	case s.Pools.Total == 0:
		return statusAttention, "There is no pool yet, so no job is taken: make one."
	case s.Hosts != nil && *s.Hosts == StatusHosts{}:
		return statusAttention, "There is no host yet, so no runner can start: join one."
	case !usable:
		return statusAttention, "No host takes runners: " + hostWords(*s.Hosts) + "."
	case s.Hosts != nil && s.Hosts.Lost+s.Hosts.Unhealthy+s.Hosts.Broken > 0:
		return statusAttention, "Not every host is well: " + hostWords(*s.Hosts) + "."
	case s.Pools.Paused > 0 && s.Jobs.Queued > 0:
		return statusAttention, fmt.Sprintf("%s, and %s.", wait(s.Jobs.Queued), verb(s.Pools.Paused, "pool", "is paused", "are paused"))
	case s.Jobs.InProgress+s.Jobs.Queued == 0:
		return statusOK, "All is well, and nothing to do: no job runs or waits."
	case s.Jobs.Queued == 0:
		return statusOK, fmt.Sprintf("All is well: %s and none waits.", verb(s.Jobs.InProgress, "job", "runs", "run"))
	}
	return statusOK, fmt.Sprintf("All is well: %s and %s for a runner.", verb(s.Jobs.InProgress, "job", "runs", "run"), verbOnly(s.Jobs.Queued, "waits", "wait"))
}

func others(n int) string {
	if n > 1 {
		return fmt.Sprintf(", and %d more", n-1)
	}
	return ""
}

func wait(n int) string {
	w := verb(n, "job", "waits", "wait")
	return strings.ToUpper(w[:1]) + w[1:]
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int, what, one, more string) string {
	if n == 1 {
		return counted(n, what) + " " + one
	}
	return counted(n, what) + " " + more
}

func verbOnly(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func hostWords(h StatusHosts) string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{h.Healthy, "healthy"}, {h.Cordoned, "cordoned"}, {h.Broken, "without a backend that works"}, {h.Unhealthy, "silent"}, {h.Lost, "lost"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if parts == nil {
		return "there is none"
	}
	return strings.Join(parts, ", ")
}
