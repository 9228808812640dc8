package github

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Limits are GitHub's ceilings. Zero fields take the published numbers.
type Limits struct {
	Core               int // requests an hour of one installation: 5,000
	RunnerRegistration int // JIT configurations and registration tokens an hour of one installation: 10,000
	Concurrent         int // requests under way of the App: 100
	PointsPerMinute    int // 1 for a GET, 5 for a change: 900 a minute of the App
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Core, 5000)
	set(&l.RunnerRegistration, 10000)
	set(&l.Concurrent, 100)
	set(&l.PointsPerMinute, 900)
	return l
}

// The resources that have budgets of their own.
const (
	resourceCore         = "core"
	resourceRegistration = "actions_runner_registration"
)

// Usage is one budget.
type Usage struct {
	Limit, Used int
	Reset       time.Time // end of the window; zero before the first request
}

// Stats is what the server counted.
type Stats struct {
	Requests       map[string]int             // by route, "GET /orgs/{org}/actions/runners"
	Responses      map[int]int                // by status; answers that were dropped are not here
	Rate           map[int64]map[string]Usage // by installation (0: the App itself) and resource
	Limited        int                        // requests refused by a limit, primary or secondary
	PeakConcurrent int
	PeakPoints     int // most points in one minute
	Mints          int // JIT registrations made
	Online         int // runners that came online, each counted once
}

type bucket struct {
	installation int64
	resource     string
}

type physics struct {
	requests   map[string]int
	responses  map[int]int
	usage      map[bucket]*Usage
	limited    int
	concurrent int
	peak       int
	mints      int
	online     int
	points     []spent // of the last minute
	peakPoints int
	faults     []*Injection
}

type spent struct {
	at time.Time
	n  int
}

func (p *physics) init() {
	p.requests, p.responses, p.usage = map[string]int{}, map[int]int{}, map[bucket]*Usage{}
}

// Stats is what the server has counted so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.physics
	st := Stats{
		Requests: maps.Clone(p.requests), Responses: maps.Clone(p.responses), Rate: map[int64]map[string]Usage{},
		Limited: p.limited, PeakConcurrent: p.peak, PeakPoints: p.peakPoints, Mints: p.mints, Online: p.online,
	}
	for b, u := range p.usage {
		if st.Rate[b.installation] == nil {
			st.Rate[b.installation] = map[string]Usage{}
		}
		st.Rate[b.installation][b.resource] = *u
	}
	return st
}

// budget is a bucket's usage, in a fresh window if the old one ended. Called under mu.
func (s *Server) budget(b bucket) *Usage {
	u, now := s.physics.usage[b], s.now()
	if u == nil {
		u = &Usage{}
		s.physics.usage[b] = u
	}
	if !now.Before(u.Reset) {
		u.Used, u.Reset = 0, now.Add(time.Hour).Truncate(time.Second)
	}
	u.Limit = s.opts.Limits.Core
	if b.resource == resourceRegistration {
		u.Limit = s.opts.Limits.RunnerRegistration
	}
	return u
}

// SpendRate uses n requests of an installation's budget up, as another user of the App would. resource is "core" or "actions_runner_registration".
func (s *Server) SpendRate(installationID int64, resource string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.budget(bucket{installationID, resource})
	u.Used = min(u.Used+n, u.Limit)
}

// admit charges a request to its budgets. It returns an answer if a limit refuses it. Called under mu.
func (s *Server) admit(b bucket, method string) *answer {
	p, l, now := &s.physics, s.opts.Limits, s.now()
	cost := 1
	if method != http.MethodGet && method != http.MethodHead {
		cost = 5
	}
	total := cost
	keep := p.points[:0]
	for _, sp := range p.points {
		if now.Sub(sp.at) < time.Minute {
			keep = append(keep, sp)
			total += sp.n
		}
	}
	p.points = keep
	if p.concurrent > l.Concurrent || total > l.PointsPerMinute {
		wait := 60
		if total > l.PointsPerMinute && len(p.points) > 0 {
			wait = int(p.points[0].at.Add(time.Minute).Sub(now).Seconds()) + 1
		}
		return s.secondaryLimit(http.StatusForbidden, wait)
	}
	u := s.budget(b)
	if u.Used >= u.Limit {
		p.limited++
		a := problem(http.StatusForbidden, fmt.Sprintf("API rate limit exceeded for installation ID %d. If you reach out to GitHub Support for help, please include the request ID.", b.installation), docPrimary)
		return &a
	}
	u.Used++
	p.points = append(p.points, spent{now, cost})
	p.peakPoints = max(p.peakPoints, total)
	return nil
}

func (s *Server) secondaryLimit(status, waitSeconds int) *answer {
	s.physics.limited++
	a := problem(status, secondaryText, docSecondary)
	a.header = http.Header{"Retry-After": {strconv.Itoa(waitSeconds)}}
	return &a
}

// rateHeaders are on every answer. Called under mu.
func (s *Server) rateHeaders(h http.Header, b bucket) {
	u := s.budget(b)
	h.Set("X-RateLimit-Limit", strconv.Itoa(u.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, u.Limit-u.Used)))
	h.Set("X-RateLimit-Used", strconv.Itoa(u.Used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(u.Reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", b.resource)
}
