package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn is any snapshot, however odd.
func drawn(t *rapid.T) Snapshot {
	past := func(what string) time.Time {
		return ago(rapid.SampledFrom([]time.Duration{0, 30 * time.Second, 4 * time.Minute, 9 * time.Minute, 20 * time.Minute, 3 * time.Hour}).Draw(t, what))
	}
	s := Snapshot{Now: now, Limits: DefaultLimits()}
	s.Limits.Enabled, s.Limits.MaxMachines = rapid.Bool().Draw(t, "on") || rapid.Bool().Draw(t, "on2"), rapid.IntRange(0, 12).Draw(t, "most")
	for i := range rapid.IntRange(1, 3).Draw(t, "providers") {
		p := Provider{ID: fmt.Sprint("prv_", i), Name: fmt.Sprint("p", i), Enabled: rapid.IntRange(0, 5).Draw(t, "enabled") > 0, MaxMachines: rapid.IntRange(0, 6).Draw(t, "max"),
			Fenced: rapid.IntRange(0, 6).Draw(t, "fenced") == 0, IdleTimeout: 5 * time.Minute, Streak: rapid.IntRange(0, 6).Draw(t, "streak"), FailedAt: past("failed"),
			Cooldown: rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(t, "cooldown")}
		if rapid.IntRange(0, 5).Draw(t, "paused") == 0 {
			p.Paused = "by ada"
		}
		if rapid.IntRange(0, 5).Draw(t, "held") == 0 {
			p.HeldUntil, p.HoldReason = now.Add(time.Minute), "quota"
		}
		for k := range rapid.IntRange(0, 3).Draw(t, "shapes") {
			p.Shapes = append(p.Shapes, Shape{Name: fmt.Sprint("s", k), Slots: rapid.IntRange(0, 8).Draw(t, "slots"), Arch: rapid.SampledFrom([]string{"", "arm64"}).Draw(t, "arch")})
		}
		s.Providers = append(s.Providers, p)
	}
	for i := range rapid.IntRange(0, 10).Draw(t, "machines") {
		m := Machine{ID: fmt.Sprintf("mac_%02d", i), ProviderID: fmt.Sprint("prv_", rapid.IntRange(0, 3).Draw(t, "of")),
			State:   rapid.SampledFrom([]string{planned, creating, starting, bootstrapping, enrolling, ready, ready, draining, draining, deleting, deleted, failed, quarantined}).Draw(t, "state"),
			StateAt: past("since"), CreatedAt: past("created"), Shape: Shape{Name: "s0", Slots: rapid.IntRange(1, 8).Draw(t, "own")}, PoolID: rapid.SampledFrom([]string{"pool_0", "pool_1", ""}).Draw(t, "pool"),
			DrainedBy: rapid.SampledFrom([]string{"", "", "ada"}).Draw(t, "by"), IdleSince: past("idle"), Identified: rapid.Bool().Draw(t, "identified")}
		if m.State == ready || m.State == draining || m.State == quarantined {
			m.Joined = true
			if rapid.IntRange(0, 6).Draw(t, "hosted") > 0 {
				m.Host = &Host{Runners: rapid.IntRange(0, 2).Draw(t, "runners"), Coming: rapid.IntRange(0, 1).Draw(t, "coming")}
				if rapid.IntRange(0, 5).Draw(t, "lost") == 0 {
					m.Host.LostAt = past("lost at")
				}
			}
		}
		s.Machines = append(s.Machines, m)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "needs") {
		s.Needs = append(s.Needs, Need{PoolID: fmt.Sprint("pool_", i), Pool: fmt.Sprint("pool ", i), Slots: rapid.IntRange(0, 20).Draw(t, "wanted"), Backend: "podman",
			Arch: rapid.SampledFrom([]string{"", "amd64", "arm64"}).Draw(t, "for"), Since: past("waits")})
	}
	// What is needed although there is room for it: that host is closed, else the scheduler would have placed it there.
	for i := range s.Machines {
		m := &s.Machines[i]
		x := slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == m.ProviderID })
		if m.State != ready || m.Host == nil || x < 0 {
			continue
		}
		u := &unit{Machine: *m, from: &source{Provider: s.Providers[x]}}
		for _, n := range s.Needs {
			m.Host.Closed = m.Host.Closed || n.Slots > 0 && u.room() > 0 && u.unfit(n) == ""
		}
	}
	return s
}

// applied is the snapshot once a plan was carried out: what is needed shrinks by the slots that a cancelled drain gives back.
func applied(s Snapshot, p Plan) Snapshot {
	s.Machines, s.Providers, s.Needs = slices.Clone(s.Machines), slices.Clone(s.Providers), slices.Clone(s.Needs)
	for n, a := range p.Actions {
		i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.ID == a.MachineID })
		x := slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == a.ProviderID })
		set := func(state string) { s.Machines[i].State, s.Machines[i].StateAt = state, s.Now }
		switch a.Kind {
		case Hold:
			s.Providers[x].HeldUntil, s.Providers[x].HoldReason = a.Until, a.Reason
		case Quarantine:
			set(quarantined)
		case GiveUp:
			set(failed)
			s.Machines[i].Identified = true
		case Drain:
			set(draining)
			s.Machines[i].Host = &Host{Runners: 1, Closed: s.Machines[i].Host.Closed, LostAt: s.Machines[i].Host.LostAt} // it is looked at again when its delete is due
		case Delete:
			set(deleting)
		case CancelDrain:
			set(ready)
			m := &s.Machines[i]
			m.IdleSince = s.Now
			left := max(m.Shape.Slots-m.Host.Runners-m.Host.Coming, 0)
			u := &unit{Machine: *m, from: &source{Provider: s.Providers[x]}}
			order := newWork(s).needs
			for _, own := range []bool{true, false} {
				for _, n := range order {
					k := slices.IndexFunc(s.Needs, func(o Need) bool { return o.PoolID == n.PoolID })
					if (n.PoolID == m.PoolID) != own || u.unfit(n) != "" {
						continue
					}
					take := min(left, s.Needs[k].Slots)
					s.Needs[k].Slots -= take
					left -= take
				}
			}
			m.Host = &Host{Runners: m.Shape.Slots}
		case Rent:
			k := slices.IndexFunc(s.Providers[x].Shapes, func(sh Shape) bool { return sh.Name == a.Shape })
			s.Machines = append(s.Machines, Machine{ID: fmt.Sprintf("mac_new%02d", n), ProviderID: a.ProviderID, State: planned, StateAt: s.Now, CreatedAt: s.Now,
				Shape: s.Providers[x].Shapes[k], PoolID: a.PoolID})
		}
	}
	return s
}

func property(t *testing.T, holds func(*rapid.T, Snapshot, Plan)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t)
		holds(t, s, Make(s))
	})
}

func TestLimitsAreNeverExceeded(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		after := applied(s, p)
		count := func(s Snapshot, id string) (n int) {
			for _, m := range s.Machines {
				if m.State != deleted && (id == "" || m.ProviderID == id) {
					n++
				}
			}
			return n
		}
		if n := count(after, ""); n > count(s, "") && n > s.Limits.MaxMachines {
			t.Fatalf("the fleet has %d of %d", n, s.Limits.MaxMachines)
		}
		for _, x := range s.Providers {
			if n := count(after, x.ID); n > count(s, x.ID) && n > x.MaxMachines {
				t.Fatalf("%s has %d of %d", x.ID, n, x.MaxMachines)
			}
		}
	})
}

func TestNothingIsRentedWhereItMustNotBe(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		rented := map[string]int{}
		for _, a := range p.Actions {
			if a.Kind != Rent {
				continue
			}
			x := s.Providers[slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == a.ProviderID })]
			rented[x.ID]++
			rests := x.Streak >= StandDownAfter && now.Before(x.FailedAt.Add(StandDown))
			if !s.Limits.Enabled || !x.Enabled || x.Paused != "" || x.Fenced || x.HeldUntil.After(now) || rests || x.Cooldown > 0 && rented[x.ID] > 1 || x.Streak >= StandDownAfter && rented[x.ID] > 1 {
				t.Fatalf("rented at %+v", x)
			}
		}
	})
}

func TestOnlyWhatMayBeTouchedIs(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		seen := map[string]bool{}
		for _, a := range p.Actions {
			if a.MachineID == "" {
				continue
			}
			if seen[a.MachineID] {
				t.Fatalf("two actions on %s: %+v", a.MachineID, p.Actions)
			}
			seen[a.MachineID] = true
			m := s.Machines[slices.IndexFunc(s.Machines, func(m Machine) bool { return m.ID == a.MachineID })]
			x := slices.IndexFunc(s.Providers, func(p Provider) bool { return p.ID == m.ProviderID })
			used := m.Host != nil && (m.Host.Runners > 0 || m.Host.Coming > 0)
			switch {
			case m.State == quarantined || m.State == deleted:
				t.Fatalf("%s of a machine that is %s", a.Kind, m.State)
			case a.Kind == Drain && (used || m.State != ready || now.Sub(m.IdleSince) < s.Providers[x].IdleTimeout):
				t.Fatalf("drained %+v with %+v", m, m.Host)
			case a.Kind == Delete && m.Host != nil && m.Host.Runners > 0:
				t.Fatalf("deleted %+v with %+v", m, m.Host)
			case x >= 0 && s.Providers[x].Fenced && (a.Kind == Delete || a.Kind == Drain || a.Kind == Quarantine):
				t.Fatalf("%s of a machine of a fenced provider", a.Kind)
			case a.Kind == CancelDrain && (m.State != draining || m.DrainedBy != ""):
				t.Fatalf("took back the drain of %+v", m)
			}
		}
	})
}

// A machine is rented only when no drain could be taken back instead.
func TestDrainsAreTakenBackBeforeMachinesAreRented(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		for _, a := range p.Actions {
			if a.Kind != Rent {
				continue
			}
			n := s.Needs[slices.IndexFunc(s.Needs, func(n Need) bool { return n.PoolID == a.PoolID })]
			for _, m := range newWork(s).machines {
				kept := slices.ContainsFunc(p.Actions, func(a Action) bool { return a.MachineID == m.ID })
				if m.State == draining && m.DrainedBy == "" && m.Host != nil && m.Host.LostAt.IsZero() && !m.Host.Closed && m.room() > 0 && m.unfit(n) == "" && !kept {
					t.Fatalf("rented for %s while %s drains", a.PoolID, m.ID)
				}
			}
		}
	})
}

func TestEnoughIsRentedOrItIsSaidWhyNot(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		for _, n := range newWork(applied(s, p)).needs {
			w := newWork(applied(s, p))
			rest := w.cover(w.onTheWay())
			i := slices.IndexFunc(rest, func(r Need) bool { return r.PoolID == n.PoolID })
			said := slices.ContainsFunc(p.Unmet, func(u Unmet) bool { return u.PoolID == n.PoolID && u.Reason != "" && u.Slots > 0 })
			if rest[i].Slots > 0 && !said {
				t.Fatalf("pool %s lacks %d and nothing says so: %+v", n.PoolID, rest[i].Slots, p)
			}
		}
	})
}

func TestASecondPassChangesNothing(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		if again := Make(applied(s, p)); len(again.Actions) > 0 {
			t.Fatalf("the second pass does %+v after %+v", again.Actions, p.Actions)
		}
		if !reflect.DeepEqual(Make(s), p) {
			t.Fatal("the same snapshot has another plan")
		}
	})
}
