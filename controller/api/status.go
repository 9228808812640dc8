package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Status says in one answer whether the fleet is all right. It counts what the caller may see.
type Status struct {
	Level         string               `json:"level" enum:"ok,attention,broken" doc:"broken: something that should work does not; attention: somebody should look"`
	Verdict       string               `json:"verdict" doc:"The same in a sentence"`
	Jobs          StatusJobs           `json:"jobs" doc:"Jobs that are not over"`
	Runners       StatusRunners        `json:"runners" doc:"Runners by state"`
	Hosts         *StatusHosts         `json:"hosts,omitempty" doc:"Hosts by health; for those who may see hosts"`
	Pools         StatusPools          `json:"pools" doc:"Pools by what keeps them from growing"`
	Problems      StatusProblems       `json:"problems" doc:"Problems that stand, by severity, whether you have hidden them or not"`
	Installations []StatusInstallation `json:"installations" nullable:"false" doc:"Installations, and whether their webhooks arrive"`
	Version       string               `json:"version" doc:"The controller's version"`
	StartedAt     time.Time            `json:"started_at" doc:"When the controller was started"`
	Uptime        Duration             `json:"uptime" doc:"How long ago that is"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Status) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "hosts")
}

// StatusJobs counts jobs.
type StatusJobs struct {
	Waiting    int `json:"waiting" doc:"For an approval at GitHub"`
	Queued     int `json:"queued" doc:"For a runner"`
	InProgress int `json:"in_progress"`
}

// StatusRunners counts runners.
type StatusRunners struct {
	Provisioning int `json:"provisioning"`
	Registering  int `json:"registering"`
	Idle         int `json:"idle"`
	Busy         int `json:"busy"`
	Draining     int `json:"draining"`
	Failed       int `json:"failed" doc:"Failed a while ago and kept for a look"`
}

// StatusHosts counts hosts. Each is in one of these.
type StatusHosts struct {
	Healthy   int `json:"healthy"`
	Cordoned  int `json:"cordoned" doc:"Healthy, and taking no new runner because an operator said so"`
	Broken    int `json:"broken" doc:"Heard from, and with no backend that works"`
	Unhealthy int `json:"unhealthy" doc:"Silent for longer than it should be"`
	Lost      int `json:"lost" doc:"Silent for so long that its runners were given up"`
	Slots     int `json:"slots" doc:"Runners that the healthy ones can run at once"`
}

// StatusPools counts pools. One may be in several of these.
type StatusPools struct {
	Total    int `json:"total"`
	AtMax    int `json:"at_max" doc:"Have as many runners as they may"`
	Blocked  int `json:"blocked" doc:"Want more runners and no host can take them"`
	Paused   int `json:"paused"`
	Disabled int `json:"disabled"`
}

// StatusProblems counts problems.
type StatusProblems struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

// StatusInstallation says whether an installation is heard from.
type StatusInstallation struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	Webhooks       string     `json:"webhooks" enum:"ok,silent,never" doc:"silent: polls find what no webhook told; never: none has ever arrived"`
	LastDeliveryAt *time.Time `json:"last_delivery_at,omitempty"`
	HeldUntil      *time.Time `json:"held_until,omitempty" doc:"GitHub has asked us to wait until then"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (StatusInstallation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "last_delivery_at", "held_until")
}

// census is what everybody's status is made from.
type census struct {
	jobs, runners []store.Count
	pools         []store.Pool
	hosts         []store.Host
	installations []installationHealth
	problems      standing
	version       string
	started, now  time.Time
}

// installationHealth is what the status needs of an installation: none of its secrets.
type installationHealth struct {
	id, name                string
	lastDelivery, heldUntil time.Time
	pollingOnly             bool
}

func (s *Server) census(ctx context.Context) (c census, err error) {
	c.version, c.started, c.now = s.version, s.fleet.Started(), s.now()
	if c.jobs, err = s.store.CountJobs(ctx); err != nil {
		return c, err
	}
	if c.runners, err = s.store.CountRunners(ctx); err != nil {
		return c, err
	}
	if c.pools, err = s.store.Pools(ctx); err != nil {
		return c, err
	}
	if c.hosts, err = s.store.Hosts(ctx); err != nil {
		return c, err
	}
	ins, err := s.store.Installations(ctx)
	if err != nil {
		return c, err
	}
	if c.problems, err = s.standing(ctx); err != nil {
		return c, err
	}
	silent := map[string]bool{}
	for _, p := range c.problems.list {
		silent[p.Subject] = silent[p.Subject] || p.Code == problems.PollOnly
	}
	for _, in := range ins {
		c.installations = append(c.installations, installationHealth{
			id: in.ID, name: in.Name, lastDelivery: in.LastDeliveryAt, heldUntil: in.HoldUntil, pollingOnly: silent[in.ID],
		})
	}
	return c, nil
}

// of is the status of what somebody may see.
func (c census) of(who auth.Principal, g auth.Guard) Status {
	sees := func(t auth.Target) bool { return who.Can(g.Role, g.Area, false, t) }
	out := Status{Installations: []StatusInstallation{}, Version: c.version, StartedAt: c.started.UTC(), Uptime: duration(c.now.Sub(c.started).Truncate(time.Second))}
	count(c.jobs, sees, map[string]*int{
		string(store.JobWaiting): &out.Jobs.Waiting, string(store.JobQueued): &out.Jobs.Queued, string(store.JobInProgress): &out.Jobs.InProgress,
	})
	r := &out.Runners
	count(c.runners, sees, map[string]*int{
		string(store.RunnerProvisioning): &r.Provisioning, string(store.RunnerRegistering): &r.Registering, string(store.RunnerIdle): &r.Idle,
		string(store.RunnerBusy): &r.Busy, string(store.RunnerDraining): &r.Draining, string(store.RunnerFailed): &r.Failed,
	})
	if sees(auth.Target{}) {
		out.Hosts = c.countHosts()
	}
	out.Pools = c.countPools(sees)
	for _, in := range c.installations {
		if sees(auth.Target{Installation: in.id}) {
			out.Installations = append(out.Installations, in.view(c.now))
		}
	}
	seen := c.problems.of(who, g, nil)
	for _, p := range seen {
		switch problems.Severity(p.Severity) {
		case problems.Error:
			out.Problems.Error++
		case problems.Warning:
			out.Problems.Warning++
		case problems.Info:
			out.Problems.Info++
		}
	}
	out.Level, out.Verdict = verdict(out, seen)
	return out
}

func count(rows []store.Count, sees func(auth.Target) bool, into map[string]*int) {
	for _, r := range rows {
		if n := into[r.State]; n != nil && sees(auth.Target{Installation: r.InstallationID, Pool: r.PoolID}) {
			*n += r.N
		}
	}
}

func (c census) countHosts() *StatusHosts {
	var out StatusHosts
	for _, h := range c.hosts {
		switch {
		case !h.LostAt.IsZero():
			out.Lost++
		case c.now.Sub(h.LastHeartbeatAt) > config.HeartbeatTimeout:
			out.Unhealthy++
		case !works(h):
			out.Broken++
		case h.Cordoned:
			out.Cordoned++
		default:
			out.Healthy++
			out.Slots += h.Capacity
		}
	}
	return &out
}

// works says whether a host has a backend that can be used.
func works(h store.Host) bool {
	for _, b := range h.Backends {
		if b.Error == "" {
			return true
		}
	}
	return false
}

func (c census) countPools(sees func(auth.Target) bool) (out StatusPools) {
	live, blocked := map[string]int{}, map[string]bool{}
	for _, r := range c.runners {
		if r.State != string(store.RunnerFailed) && r.State != string(store.RunnerDraining) {
			live[r.PoolID] += r.N
		}
	}
	for _, p := range c.problems.list {
		if p.Code == problems.PoolBlocked {
			blocked[p.Subject] = true
		}
	}
	for _, p := range c.pools {
		if !sees(poolTarget(p)) {
			continue
		}
		for n, is := range map[*int]bool{
			&out.Total: true, &out.AtMax: p.Enabled && live[p.ID] >= p.Max, &out.Blocked: blocked[p.ID],
			&out.Paused: !p.PausedAt.IsZero(), &out.Disabled: !p.Enabled,
		} {
			if is {
				*n++
			}
		}
	}
	return out
}

func (in installationHealth) view(now time.Time) StatusInstallation {
	out := StatusInstallation{ID: in.id, Name: in.name, Webhooks: "ok", LastDeliveryAt: optional(in.lastDelivery)}
	switch {
	case in.pollingOnly:
		out.Webhooks = "silent"
	case in.lastDelivery.IsZero():
		out.Webhooks = "never"
	}
	if in.heldUntil.After(now) {
		out.HeldUntil = optional(in.heldUntil)
	}
	return out
}

type statusOutput struct{ Body Status }

func addStatus(s *Server) {
	register(s, "get-status", s.getStatus)
}

func (s *Server) getStatus(ctx context.Context, _ *struct{}) (*statusOutput, error) {
	c, err := s.census(ctx)
	if err != nil {
		return nil, err
	}
	return &statusOutput{c.of(principal(ctx), requestOf(ctx).guard)}, nil
}
