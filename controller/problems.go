package controller

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Problem is something that an operator should know of now.
type Problem struct {
	Code  string `json:"code"`
	Title string `json:"title"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
}

// Codes of problems.
const (
	ProblemLeaseLost      = "controller.lease_lost"
	ProblemRunnerVersion  = "runners.version_deprecated"
	ProblemPollOnly       = "github.polling_only"
	ProblemClientMissing  = "pool.docker_client_missing"
	ProblemRunnerAging    = "runners.image_aging"
	ProblemPoolBlocked    = "pool.blocked"
	ProblemUnmatched      = "jobs.unmatched"
	ProblemNotProgressing = "runners.not_progressing"
	ProblemHostLost       = "hosts.lost"
	ProblemBackendBroken  = "hosts.backend_broken"
	ProblemDiskFull       = "hosts.disk_full"
)

// problems holds what stands now, by code and subject.
type problems struct {
	mu  sync.Mutex
	all map[string]Problem
}

func newProblems() *problems { return &problems{all: map[string]Problem{}} }

func (p *problems) raise(subject string, x Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[x.Code+"/"+subject] = x
}

func (p *problems) clear(code, subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, code+"/"+subject)
}

// Problems returns what stands now, in a stable order.
func (c *Controller) Problems() []Problem {
	c.problems.mu.Lock()
	defer c.problems.mu.Unlock()
	out := make([]Problem, 0, len(c.problems.all))
	for _, k := range slices.Sorted(maps.Keys(c.problems.all)) {
		out = append(out, c.problems.all[k])
	}
	return out
}

// is raises a problem of a code while it stands, and clears it when it does not.
func (p *problems) is(code, subject string, stands bool, x func() Problem) {
	if stands {
		p.raise(subject, x())
	} else {
		p.clear(code, subject)
	}
}

// subjects are those of which a problem of a code stands.
func (p *problems) subjects(code string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.all {
		if s, ok := strings.CutPrefix(k, code+"/"); ok {
			out = append(out, s)
		}
	}
	return out
}
