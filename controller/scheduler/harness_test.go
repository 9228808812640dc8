package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// fleet builds a snapshot: one account, one healthy host unless changed.
type fleet struct{ Snapshot }

func newFleet() *fleet {
	return &fleet{Snapshot{Now: now, Tunables: DefaultTunables()}}
}

func (f *fleet) pool(name string, labels []string, change ...func(*Pool)) *fleet {
	p := Pool{ID: "pool_" + name, Name: name, Labels: labels, Backend: "podman", Account: "acme",
		Max: 10, Enabled: true, IdleTimeout: 5 * time.Minute}
	for _, c := range change {
		c(&p)
	}
	f.Pools = append(f.Pools, p)
	return f
}

func (f *fleet) host(name string, capacity int, change ...func(*Host)) *fleet {
	h := Host{ID: "hst_" + name, Name: name, OS: "linux", Arch: "amd64", Backends: []string{"podman"},
		Capacity: capacity, LastHeartbeat: ago(10 * time.Second)}
	for _, c := range change {
		c(&h)
	}
	f.Hosts = append(f.Hosts, h)
	return f
}

func (f *fleet) runner(id, pool, state string, change ...func(*Runner)) *fleet {
	r := Runner{ID: id, PoolID: "pool_" + pool, HostID: "hst_a", State: state, CreatedAt: ago(time.Minute), StateAt: ago(time.Minute)}
	if state == failed {
		r.FinishedAt = ago(time.Minute)
	}
	for _, c := range change {
		c(&r)
	}
	f.Runners = append(f.Runners, r)
	return f
}

func (f *fleet) job(id string, labels []string, change ...func(*Job)) *fleet {
	j := Job{ID: id, Account: "acme", Repository: "acme/app", Labels: labels, State: queued, QueuedAt: ago(4 * time.Second)}
	for _, c := range change {
		c(&j)
	}
	f.Jobs = append(f.Jobs, j)
	return f
}

func (f *fleet) jobs(n int, labels []string, change ...func(*Job)) *fleet {
	for range n {
		f.job(fmt.Sprintf("job_%03d", len(f.Jobs)), labels, change...)
	}
	return f
}

func (f *fleet) tune(change func(*Tunables)) *fleet {
	change(&f.Tunables)
	return f
}

func (f *fleet) decide() Plan { return Decide(f.Snapshot) }

func labels(l ...string) []string { return l }

func of(p Plan, kind Kind) []Action {
	var out []Action
	for _, a := range p.Actions {
		if a.Kind == kind {
			out = append(out, a)
		}
	}
	return out
}

// ids lists the runners (or, of creates, the jobs) of the actions of a kind, in the plan's order.
func ids(p Plan, kind Kind) []string {
	out := []string{}
	for _, a := range of(p, kind) {
		if kind == Create {
			out = append(out, a.JobID)
		} else {
			out = append(out, a.RunnerID)
		}
	}
	return out
}

// perPool counts the creates of each pool, by name.
func perPool(p Plan) map[string]int {
	out := map[string]int{}
	for _, a := range of(p, Create) {
		out[a.PoolID[len("pool_"):]]++
	}
	return out
}

func decision(t *testing.T, p Plan, pool string) PoolDecision {
	t.Helper()
	for _, d := range p.Pools {
		if d.PoolID == "pool_"+pool {
			return d
		}
	}
	t.Fatalf("no decision about pool %s", pool)
	return PoolDecision{}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// apply does what a plan says to a copy of the snapshot, as the store would.
func apply(s Snapshot, p Plan) Snapshot {
	s.Runners = slices.Clone(s.Runners)
	at := func(id string) int {
		return slices.IndexFunc(s.Runners, func(r Runner) bool { return r.ID == id })
	}
	repos := map[string]string{}
	for _, j := range s.Jobs {
		repos[j.ID] = j.Repository
	}
	for n, a := range p.Actions {
		switch a.Kind {
		case Remove:
			i := at(a.RunnerID)
			s.Runners = slices.Delete(s.Runners, i, i+1)
		case Fail:
			r := &s.Runners[at(a.RunnerID)]
			r.State, r.StateAt, r.FinishedAt = failed, s.Now, s.Now
		case Retire, Withdraw, Drain:
			r := &s.Runners[at(a.RunnerID)]
			r.State, r.StateAt = "draining", s.Now
		case Create:
			s.Runners = append(s.Runners, Runner{ID: fmt.Sprintf("run_new%d_%d", len(s.Runners), n), PoolID: a.PoolID, HostID: a.HostID,
				State: provisioning, CreatedAt: s.Now, StateAt: s.Now, DemandJobID: a.JobID, Repository: repos[a.JobID]})
		}
	}
	return s
}
