package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// machineStates are all of them, in the order of a life.
var machineStates = []store.MachineState{store.MachinePlanned, store.MachineCreating, store.MachineStarting, store.MachineBootstrapping,
	store.MachineEnrolling, store.MachineReady, store.MachineDraining, store.MachineDeleting, store.MachineDeleted, store.MachineFailed, store.MachineQuarantined}

// specified are the arrows of the specification's diagram, and no others.
var specified = map[[2]store.MachineState]bool{
	{"planned", "creating"}: true, {"creating", "starting"}: true, {"creating", "bootstrapping"}: true, {"starting", "bootstrapping"}: true,
	{"bootstrapping", "enrolling"}: true, {"enrolling", "ready"}: true, {"ready", "draining"}: true, {"draining", "ready"}: true,
	{"ready", "deleting"}: true, {"draining", "deleting"}: true, {"deleting", "deleted"}: true, {"planned", "failed"}: true,
	{"creating", "failed"}: true, {"bootstrapping", "failed"}: true, {"enrolling", "failed"}: true, {"failed", "deleting"}: true,
	{"creating", "quarantined"}: true, {"ready", "quarantined"}: true, {"deleting", "quarantined"}: true, {"quarantined", "deleted"}: true,
}

func TestMachineTransitionsAreThoseOfTheDiagram(t *testing.T) {
	t.Parallel()
	for _, from := range machineStates {
		for _, to := range machineStates {
			if got, want := store.CanTransitionMachine(from, to), from == to || specified[[2]store.MachineState{from, to}]; got != want {
				t.Errorf("%s to %s is %t", from, to, got)
			}
		}
		if store.CanTransitionMachine(from, "nowhere") || store.CanTransitionMachine("nowhere", from) {
			t.Errorf("%s and a state that does not exist", from)
		}
	}
}

func newProvider(t testing.TB, s *store.Store, name string) store.Provider {
	t.Helper()
	p, err := s.CreateProvider(t.Context(), store.Provider{Name: name, Kind: "fake", Config: `{"node":"a"}`, Secret: secrets.Of("token"), Enabled: true,
		MaxMachines: 100, IdleTimeout: time.Minute, Shapes: []store.MachineShape{{Name: "small", CPUs: 2, Labels: map[string]string{"zone": "a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProvidersAreWhatWasDeclared(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	p := newProvider(t, s, "lab")
	if _, err := s.CreateProvider(t.Context(), store.Provider{Name: "lab", Kind: "fake"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("two of one name: %v", err)
	}
	p.Name, p.Secret, p.MaxMachines = "lab 2", secrets.Value{}, 3
	if err := s.UpdateProvider(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := s.PauseProvider(t.Context(), p.ID, "ada", "maintenance"); err != nil {
		t.Fatal(err)
	}
	late, early := c.now().Add(time.Hour), c.now().Add(time.Minute)
	if err := errors.Join(s.HoldProvider(t.Context(), p.ID, late, "long"), s.HoldProvider(t.Context(), p.ID, early, "short")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Provider(t.Context(), p.ID)
	if err != nil || got.Name != "lab 2" || string(got.Secret.Reveal()) != "token" || got.MaxMachines != 3 || got.Config != `{"node":"a"}` ||
		got.PausedBy != "ada" || !got.HeldUntil.Equal(late) || got.HoldReason != "long" || got.Shapes[0].Labels["zone"] != "a" || got.Shapes[0].Slots() != 2 {
		t.Errorf("got %+v (%v)", got, err)
	}
	if err := s.ResumeProvider(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Provider(t.Context(), p.ID); err != nil || !got.PausedAt.IsZero() || !got.HeldUntil.IsZero() {
		t.Errorf("resumed %+v (%v)", got, err)
	}
	if err := s.DeleteProvider(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
}

func planned(t testing.TB, s *store.Store, p store.Provider, name string) store.Machine {
	t.Helper()
	m, err := s.PlanMachine(t.Context(), store.Machine{ProviderID: p.ID, Name: name, Shape: p.Shapes[0], Reason: "a pool needs it"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The limits are asked for in the write itself: two passes that read the same rows must not exceed them together.
func TestPlanningKeepsTheLimits(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	p := newProvider(t, s, "lab")
	planned(t, s, p, "m1")
	for name, change := range map[string]func() int{
		"of the fleet":    func() int { return 1 },
		"of the provider": func() int { p.MaxMachines = 1; return 100 },
		"paused":          func() int { p.MaxMachines = 100; _ = s.PauseProvider(t.Context(), p.ID, "ada", ""); return 100 },
		"fenced":          func() int { _ = s.FenceProviders(t.Context(), "restored"); return 100 },
	} {
		most := change()
		if err := s.UpdateProvider(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PlanMachine(t.Context(), store.Machine{ProviderID: p.ID, Name: "m2", Shape: p.Shapes[0]}, most); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One identity has one live machine, and a deleted one's stays taken for a while.
func TestIdentities(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	p, q := newProvider(t, s, "a"), newProvider(t, s, "b")
	at := store.Identity{ResourceID: "9000", Zone: "z1"}
	a, b, other := planned(t, s, p, "a1"), planned(t, s, p, "a2"), planned(t, s, q, "b1")
	if _, err := s.IdentifyMachine(t.Context(), a.ID, at, "made"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.IdentifyMachine(t.Context(), b.ID, at, "made"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("two machines of one identity: %v", err)
	}
	if _, err := s.IdentifyMachine(t.Context(), other.ID, at, "made"); err != nil {
		t.Errorf("the same at another provider: %v", err)
	}
	if _, err := s.IdentifyMachine(t.Context(), a.ID, store.Identity{ResourceID: "9001"}, "made"); !errors.Is(err, store.ErrTransition) {
		t.Errorf("a second identity: %v", err)
	}
	for _, to := range []store.MachineState{store.MachineFailed, store.MachineDeleting, store.MachineDeleted} {
		if _, _, err := s.TransitionMachine(t.Context(), a.ID, to, store.MachineChange{}); err != nil {
			t.Fatal(err)
		}
	}
	died := c.now()
	c.step(time.Hour)
	if got, err := s.TakenIdentities(t.Context(), p.ID, died.Add(-time.Minute)); err != nil || !slices.Equal(got, []store.Identity{at}) {
		t.Errorf("taken soon after: %v, %v", got, err)
	}
	if got, err := s.TakenIdentities(t.Context(), p.ID, died.Add(time.Minute)); err != nil || len(got) > 0 {
		t.Errorf("taken long after: %v, %v", got, err)
	}
	if got, err := s.Provider(t.Context(), p.ID); err != nil || got.FailureStreak != 1 || !got.FailedAt.Equal(died) {
		t.Errorf("failures %d at %s (%v)", got.FailureStreak, got.FailedAt, err)
	}
	if err := s.DeleteProvider(t.Context(), p.ID); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a provider with a live machine was deleted: %v", err)
	}
}

// Whatever is asked of a machine, in any order: it moves along the diagram alone, what is stamped stays, and what is refused changes nothing.
func TestAnyUseOfMachinesKeepsTheDiagram(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	p := newProvider(t, s, "lab")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m, err := s.PlanMachine(rt.Context(), store.Machine{ProviderID: p.ID, Name: store.NewID("m-"), Shape: p.Shapes[0]}, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		p.MaxMachines = 1 << 20
		if err := s.UpdateProvider(rt.Context(), p); err != nil {
			rt.Fatal(err)
		}
		read := func() store.Machine {
			now, err := s.Machine(rt.Context(), m.ID)
			if err != nil {
				rt.Fatal(err)
			}
			return now
		}
		rt.Repeat(map[string]func(*rapid.T){
			"identify": func(rt *rapid.T) {
				now, err := s.IdentifyMachine(rt.Context(), m.ID, store.Identity{ResourceID: m.ID}, "it is made")
				if (err == nil) != (m.State == store.MachinePlanned) {
					rt.Fatalf("identified while %s: %v", m.State, err)
				}
				if err == nil {
					m = now
				}
			},
			"move": func(rt *rapid.T) {
				to := rapid.SampledFrom(machineStates).Draw(rt, "to")
				by := rapid.SampledFrom([]string{"", "ada"}).Draw(rt, "by")
				now, changed, err := s.TransitionMachine(rt.Context(), m.ID, to, store.MachineChange{Message: "because", By: by})
				legal := store.CanTransitionMachine(m.State, to)
				if m.State == store.MachineQuarantined && to == store.MachineDeleted && by == "" {
					legal = false
				}
				switch {
				case errors.Is(err, store.ErrConflict) && (to == store.MachineDraining || to == store.MachineDeleting):
					return // its host is used
				case (err == nil) != legal, changed != (legal && to != m.State):
					rt.Fatalf("%s to %s by %q: changed %t, %v", m.State, to, by, changed, err)
				case err == nil:
					m = now
				}
			},
			"token": func(rt *rapid.T) {
				jt, err := s.SetMachineToken(rt.Context(), m.ID, store.NewID("hash-"), c.now().Add(time.Hour))
				if ok := m.HostID == "" && (m.State == store.MachineCreating || m.State == store.MachineStarting); (err == nil) != ok {
					rt.Fatalf("a token while %s: %v", m.State, err)
				}
				if err == nil {
					m = read()
					if m.JoinTokenID != jt.ID || jt.HostName != m.Name {
						rt.Fatalf("the token is %+v", jt)
					}
				}
			},
			"join": func(rt *rapid.T) {
				jt, err := s.JoinToken(rt.Context(), m.JoinTokenID)
				if m.JoinTokenID == "" || err != nil {
					return
				}
				fresh := jt.UsedAt.IsZero()
				h, _, err := s.JoinHost(rt.Context(), jt.Hash, m.Name, "agent "+m.ID, store.HostUpdate{Capacity: 2})
				if fresh && err == nil {
					if m = read(); m.HostID != h.ID || m.JoinedAt.IsZero() || m.BootedAt.IsZero() {
						rt.Fatalf("joined as %s: %+v", h.ID, m)
					}
				}
			},
			"run": func(rt *rapid.T) {
				rs := []store.Runner{{Name: store.NewID("r-"), PoolID: f.Pool.ID, HostID: m.HostID}}
				if m.HostID == "" || s.CreateRunners(rt.Context(), rs) != nil {
					return
				}
				if rapid.Bool().Draw(rt, "ends") {
					if _, _, err := s.TransitionRunner(rt.Context(), rs[0].ID, store.RunnerRemoved, store.Change{}); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"wait": func(*rapid.T) { c.step(time.Minute) },
			"": func(rt *rapid.T) {
				now := read()
				if now.State != m.State || !now.StateAt.Equal(m.StateAt) || !now.FinishedAt.Equal(m.FinishedAt) || now.ResourceID != m.ResourceID {
					rt.Fatalf("it is %+v, want %+v", now, m)
				}
				over := now.State == store.MachineDeleted || now.State == store.MachineDeleting || now.State == store.MachineFailed
				if over && now.FinishedAt.IsZero() && !now.CreatingAt.IsZero() && now.ReadyAt.IsZero() && now.State != store.MachineDeleting {
					rt.Fatalf("its end is not stamped: %+v", now)
				}
				if (now.State == store.MachineDeleted) == now.DeletedAt.IsZero() {
					rt.Fatalf("deleted at %s while %s", now.DeletedAt, now.State)
				}
				h, err := s.Host(rt.Context(), now.HostID)
				switch {
				case now.HostID == "":
				case now.State == store.MachineDeleting && err == nil:
					rt.Fatal("a machine that is being deleted has a host")
				case now.State == store.MachineDraining && err == nil && (!h.Draining || !h.Cordoned),
					now.State == store.MachineFailed && err == nil && !h.Cordoned, now.State == store.MachineQuarantined && err == nil && !h.Cordoned:
					rt.Fatalf("its host is %+v while it is %s", h, now.State)
				}
				if jt, err := s.JoinToken(rt.Context(), now.JoinTokenID); err == nil && jt.UsedAt.IsZero() &&
					!slices.Contains([]store.MachineState{store.MachineCreating, store.MachineStarting, store.MachineBootstrapping, store.MachineEnrolling}, now.State) {
					rt.Fatalf("a machine that is %s could still join", now.State)
				}
			},
		})
	})
}
