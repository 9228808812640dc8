package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// lab is a fleet that may rent, with one provider of machines of four slots.
func lab(change ...func(*Snapshot)) Snapshot {
	s := Snapshot{Now: now, Limits: DefaultLimits(), Providers: []Provider{{ID: "prv_a", Name: "a", Enabled: true, MaxMachines: 20, IdleTimeout: 10 * time.Minute,
		Shapes: []Shape{{Name: "small", Slots: 4}}}}}
	s.Limits.Enabled, s.Limits.MaxMachines = true, 20
	for _, c := range change {
		c(&s)
	}
	return s
}

func need(n int, change ...func(*Need)) func(*Snapshot) {
	return func(s *Snapshot) {
		x := Need{PoolID: "pool_a", Pool: "a", Slots: n, Backend: "podman", Since: ago(time.Minute)}
		for _, c := range change {
			c(&x)
		}
		s.Needs = append(s.Needs, x)
	}
}

func machine(state string, change ...func(*Machine)) func(*Snapshot) {
	return func(s *Snapshot) {
		m := Machine{ID: fmt.Sprintf("mac_%02d", len(s.Machines)), ProviderID: "prv_a", State: state, StateAt: ago(time.Minute), CreatedAt: ago(time.Minute),
			Shape: s.Providers[0].Shapes[0], Identified: state != planned}
		if state == ready || state == draining {
			m.Joined, m.Host, m.IdleSince = true, &Host{}, ago(time.Minute)
		}
		for _, c := range change {
			c(&m)
		}
		s.Machines = append(s.Machines, m)
	}
}

func first(change func(*Provider)) func(*Snapshot) {
	return func(s *Snapshot) { change(&s.Providers[0]) }
}

func kinds(p Plan) string {
	var out []string
	for _, a := range p.Actions {
		out = append(out, string(a.Kind))
	}
	return strings.Join(out, ", ")
}

func TestMake(t *testing.T) {
	t.Parallel()
	rents := func(n int) string { return strings.TrimSuffix(strings.Repeat("rent, ", n), ", ") }
	idle := func(m *Machine) { m.IdleSince = ago(11 * time.Minute) }
	for _, tt := range []struct {
		name  string
		s     Snapshot
		want  string
		unmet string // part of the first reason; empty when nothing is unmet
	}{
		{"nothing is needed", lab(), "", ""},
		{"thirty jobs, machines of four slots", lab(need(30)), rents(8), ""},
		{"of which five are on the way", lab(need(30), machine(planned), machine(creating), machine(starting), machine(bootstrapping), machine(enrolling)), rents(3), ""},
		{"a machine that has joined is for the scheduler to see", lab(need(4), machine(enrolling, func(m *Machine) { m.Joined = true })), rents(1), ""},
		{"one that failed is nothing", lab(need(4), machine(failed)), rents(1), ""},
		{"nor is one that is given up now", lab(need(4), machine(bootstrapping, func(m *Machine) { m.StateAt = ago(time.Hour) })), "give up, rent", ""},
		{"two pools share what one leaves over", lab(need(2), need(2, func(n *Need) { n.PoolID, n.Pool = "pool_b", "b" })), rents(1), ""},
		{"the smallest shape that is enough", lab(first(func(p *Provider) {
			p.Shapes = []Shape{{Name: "large", Slots: 16}, {Name: "small", Slots: 2}, {Name: "medium", Slots: 8}}
		}), need(7)), rents(1), ""},
		{"another provider when one is full", lab(first(func(p *Provider) { p.MaxMachines = 1 }), func(s *Snapshot) {
			s.Providers = append(s.Providers, Provider{ID: "prv_b", Name: "b", Enabled: true, MaxMachines: 5, Shapes: []Shape{{Name: "x", Slots: 1}}})
		}, need(6)), rents(3), ""},

		{"switched off", lab(func(s *Snapshot) { s.Limits.Enabled = false }, need(4)), "", "provider.enabled"},
		{"no machines for the fleet", lab(func(s *Snapshot) { s.Limits.MaxMachines = 0 }, need(4)), "", "provider.max_machines"},
		{"no machines for the provider", lab(first(func(p *Provider) { p.MaxMachines = 0 }), need(4)), "", "its maximum is 0"},
		{"disabled", lab(first(func(p *Provider) { p.Enabled = false }), need(4)), "", "disabled"},
		{"paused", lab(first(func(p *Provider) { p.Paused = "by ada" }), need(4)), "", "paused: by ada"},
		{"fenced", lab(first(func(p *Provider) { p.Fenced = true }), need(4)), "", "fenced"},
		{"not ready", lab(first(func(p *Provider) { p.Preparing = "no image" }), need(4)), "", "no image"},
		{"as many as allowed", lab(first(func(p *Provider) { p.MaxMachines = 3 }), machine(ready), machine(quarantined), need(8)), rents(1), "3 of at most 3"},
		{"as many as the fleet may have", lab(func(s *Snapshot) { s.Limits.MaxMachines = 2 }, need(30)), rents(2), "2 of at most 2"},
		{"one at a time in a cooldown", lab(first(func(p *Provider) { p.Cooldown = 5 * time.Minute }), need(30)), rents(1), "every 5m"},
		{"not in a cooldown", lab(first(func(p *Provider) { p.Cooldown = 5 * time.Minute }), machine(ready, func(m *Machine) { m.Host.Runners = 4 }), need(30)), "", "every 5m"},
		{"another architecture", lab(need(1, func(n *Need) { n.Arch = "arm64" })), "", "amd64 and the pool asks for arm64"},
		{"another system", lab(need(1, func(n *Need) { n.OS = "windows" })), "", "Linux"},
		{"another backend", lab(need(1, func(n *Need) { n.Backend = "process" })), "", "asks for process"},
		{"a label that no shape has", lab(need(1, func(n *Need) { n.Selector = map[string]string{"gpu": "yes"} })), "", "gpu=yes"},
		{"a label that a shape has", lab(first(func(p *Provider) {
			p.Shapes = append(p.Shapes, Shape{Name: "gpu", Slots: 1, Labels: map[string]string{"gpu": "yes"}})
		}), need(2, func(n *Need) { n.Selector = map[string]string{"gpu": "yes"} })), rents(2), ""},
		{"no provider at all", Snapshot{Now: now, Needs: []Need{{PoolID: "p", Slots: 1}}}, "", "no provider"},

		{"two failures in a row", lab(first(func(p *Provider) { p.Streak, p.FailedAt = 2, now }), need(30)), rents(8), ""},
		{"three failures in a row", lab(first(func(p *Provider) { p.Streak, p.FailedAt = 3, now }), need(4)), "hold", "failed in a row"},
		{"a hold that stands", lab(first(func(p *Provider) { p.HeldUntil, p.HoldReason = now.Add(time.Minute), "quota" }), need(4)), "", "quota"},
		{"after the rest one is tried", lab(first(func(p *Provider) { p.Streak, p.FailedAt = 3, ago(time.Hour) }), need(30)), rents(1), "one machine is tried"},

		{"idle", lab(machine(ready, idle)), "drain", ""},
		{"not long enough", lab(machine(ready)), "", ""},
		{"a runner is about to be placed", lab(machine(ready, idle, func(m *Machine) { m.Host.Coming = 1 })), "", ""},
		{"a runner is there", lab(machine(ready, idle, func(m *Machine) { m.Host.Runners = 1 })), "", ""},
		{"idle and switched off", lab(func(s *Snapshot) { s.Limits.Enabled = false }, machine(ready, idle)), "drain", ""},
		{"idle and paused", lab(first(func(p *Provider) { p.Paused = "by ada" }), machine(ready, idle)), "drain", ""},
		{"idle and fenced", lab(first(func(p *Provider) { p.Fenced = true }), machine(ready, idle)), "", ""},
		{"drained", lab(machine(draining)), "delete", ""},
		{"draining and fenced", lab(first(func(p *Provider) { p.Fenced = true }), machine(draining)), "", ""},
		{"still draining", lab(machine(draining, func(m *Machine) { m.Host.Runners = 1 })), "", ""},
		{"demand takes a drain back", lab(machine(draining), need(3)), "cancel drain", ""},
		{"and the rest is rented", lab(machine(draining), need(5)), "cancel drain, rent", ""},
		{"though not beyond a pause", lab(first(func(p *Provider) { p.Paused = "by ada" }), machine(draining), need(5)), "cancel drain", "paused"},
		{"a drain of an operator stays", lab(machine(draining, func(m *Machine) { m.DrainedBy = "ada"; m.Host.Runners = 1 }), need(3)), "rent", ""},
		{"so does a cordon", lab(machine(draining, func(m *Machine) { m.Cordoned = true; m.Host.Runners = 1 }), need(3)), "rent", ""},
		{"a draining machine whose disk is full", lab(machine(draining, func(m *Machine) { m.Host.Closed = true }), need(3)), "rent, delete", ""},
		{"a draining machine that could not serve", lab(machine(draining, func(m *Machine) { m.Host.Runners = 4 }), need(3)), "rent", ""},

		{"its host is gone", lab(machine(ready, func(m *Machine) { m.Host = nil })), "delete", ""},
		{"its host is lost", lab(machine(ready, func(m *Machine) { m.Host.LostAt = ago(time.Hour) })), "delete", ""},
		{"its host was lost just now", lab(machine(ready, func(m *Machine) { m.Host.LostAt = ago(time.Minute) })), "", ""},
		{"a failed one that may have left something", lab(machine(failed, func(m *Machine) { m.StateAt = ago(time.Hour) })), "delete", ""},
		{"a failed one that cannot have", lab(machine(failed, func(m *Machine) { m.Identified = false })), "delete", ""},
		{"a failed one just now", lab(machine(failed)), "", ""},
		{"a create that is never issued", lab(machine(planned, func(m *Machine) { m.StateAt = ago(time.Hour) })), "give up", ""},
		{"a create that never ends", lab(machine(creating, func(m *Machine) { m.CreatedAt = ago(time.Hour) })), "give up", ""},
		{"one that has joined meanwhile", lab(machine(creating, func(m *Machine) { m.CreatedAt, m.Joined = ago(time.Hour), true })), "", ""},
		{"a guest that never joins", lab(machine(enrolling, func(m *Machine) { m.StateAt = ago(time.Hour) })), "give up", ""},
		{"a delete that is never proved", lab(machine(deleting, func(m *Machine) { m.StateAt = ago(2 * time.Hour) })), "quarantine", ""},
		{"quarantined for ever", lab(machine(quarantined, func(m *Machine) { m.StateAt = ago(1000 * time.Hour); m.Host = &Host{LostAt: ago(999 * time.Hour)} })), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := Make(tt.s)
			if got := kinds(p); got != tt.want {
				t.Errorf("it plans %q, want %q: %+v", got, tt.want, p)
			}
			if (len(p.Unmet) > 0) != (tt.unmet != "") || len(p.Unmet) > 0 && !strings.Contains(p.Unmet[0].Reason, tt.unmet) {
				t.Errorf("unmet is %+v, want %q", p.Unmet, tt.unmet)
			}
			for _, a := range p.Actions {
				if a.Reason == "" {
					t.Errorf("%+v says no reason", a)
				}
			}
		})
	}
}

// A job that no shape could ever serve is another thing than one that waits for room.
func TestNeverIsNotLater(t *testing.T) {
	t.Parallel()
	never := Make(lab(need(1, func(n *Need) { n.Arch = "arm64" }))).Unmet
	later := Make(lab(need(1), first(func(p *Provider) { p.Paused = "by ada" }))).Unmet
	if len(never) != 1 || !never[0].Never || len(later) != 1 || later[0].Never {
		t.Errorf("never is %+v, later %+v", never, later)
	}
}

// Next is when time alone changes the plan.
func TestNextIsWhenTimeAloneChangesThePlan(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Snapshot{
		"idle":     lab(machine(ready)),
		"boots":    lab(machine(bootstrapping)),
		"deleting": lab(machine(deleting)),
		"failed":   lab(machine(failed)),
		"cooldown": lab(first(func(p *Provider) { p.Cooldown = 5 * time.Minute }), machine(ready, func(m *Machine) { m.Host.Runners = 4 }), need(4)),
		"held":     lab(first(func(p *Provider) { p.HeldUntil, p.HoldReason = now.Add(time.Minute), "quota" }), need(4)),
	} {
		p := Make(s)
		if len(p.Actions) > 0 || !p.Next.After(now) {
			t.Fatalf("%s: %+v", name, p)
		}
		s.Now = p.Next
		if got := Make(s); len(got.Actions) == 0 {
			t.Errorf("%s: at %s nothing is planned", name, p.Next)
		}
	}
}

func TestTheOrderOfTheSnapshotDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := lab(need(9), need(3, func(n *Need) { n.PoolID, n.Pool = "pool_b", "b" }), machine(creating), machine(draining), machine(ready), machine(failed))
	want := fmt.Sprint(Make(s))
	slices.Reverse(s.Needs)
	slices.Reverse(s.Machines)
	if got := fmt.Sprint(Make(s)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
