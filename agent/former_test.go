package agent

import (
	"slices"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
)

// views gives each host a view of the engine of its own, as the labels on a real one do.
func (r *rig) views() map[string]*fake.Backend {
	views := map[string]*fake.Backend{"hst_1": r.engine}
	r.cfg.Bind = func(id string) ([]backend.Backend, error) {
		if views[id] == nil {
			views[id] = fake.New("podman", nil)
		}
		return []backend.Backend{views[id]}, nil
	}
	return views
}

// rejoined is a rig whose host has been deleted at the controller and taken in again under another ID.
func rejoined(t *testing.T, r *rig) map[string]*fake.Backend {
	t.Helper()
	views := r.views()
	r.running("run_old")
	r.stop()
	r.cfg.JoinToken = "zoojoin_two"
	r.ctl.set(func() { r.ctl.token, r.ctl.hostID, r.ctl.tokens["zoojoin_two"] = "", "hst_2", true })
	r.start()
	if err := <-r.done; err == nil {
		t.Fatal("the host has its old ID")
	}
	r.agent = nil
	r.start()
	if id := r.agent.HostID(); id != "hst_2" {
		t.Fatalf("the host is %s", id)
	}
	return views
}

// A deleted host comes back under another ID. What it had started before is reported, and goes when the controller disowns it.
func TestWorkloadsOfAFormerIDGo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		views := rejoined(t, r)
		views["hst_2"].Put(backend.Workload{Name: "z", RunnerID: "run_new", Role: backend.RoleRunner, Phase: backend.Running}, "hst_2")
		r.after(OrphanGrace + 3*ReportInterval)
		r.wantCount(1) // nobody has said that it is over
		r.ctl.set(func() { r.ctl.unknown["run_old"] = true })
		r.after(ReportInterval)
		r.wantCount(1)
		r.after(OrphanGrace + 2*ReportInterval)
		r.wantCount(0)
		if n := views["hst_2"].Count(); n != 1 {
			t.Errorf("the host has %d workloads under its new ID", n)
		}
		for _, hb := range r.ctl.beats {
			if len(hb.Host.Backends) != 1 || hb.Host.Backends[0].Name != "podman" {
				t.Fatalf("what a former host left is offered as a backend: %+v", hb.Host.Backends)
			}
		}
		if st, err := LoadState(r.cfg.StatePath); err != nil || !slices.Equal(st.Former, []string{"hst_1"}) {
			t.Errorf("the state remembers %q: %v", st.Former, err)
		}
		r.stop()
		r.start()
		if st, err := LoadState(r.cfg.StatePath); err != nil || len(st.Former) != 0 {
			t.Errorf("the state still remembers %q although nothing is left: %v", st.Former, err)
		}
	})
}

// A former host's engine that does not answer may have something: it is not forgotten, and is seen when it answers.
func TestFormerHostIsNotForgottenUnseen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		rejoined(t, r)
		r.stop()
		r.engine.Inject(fake.OpList, fake.Fault{Err: backend.ErrUnavailable})
		r.ctl.set(func() { r.ctl.unknown["run_old"] = true })
		r.start()
		r.after(2*OrphanGrace + 4*ReportInterval)
		r.wantCount(0)
	})
}

func TestFormerIDsAreBounded(t *testing.T) {
	t.Parallel()
	var s State
	for _, id := range []string{"a", "b", "a", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
		s.joined("token", id, "secret", "")
	}
	if !slices.Equal(s.Former, []string{"c", "d", "e", "f", "g", "h", "i", "j"}) {
		t.Errorf("remembered %q", s.Former)
	}
}
