package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// problem is the problem of a code that stands now.
func (r *rig) problem(code problems.Code) (problems.Problem, bool) {
	all := r.c().Problems()
	i := slices.IndexFunc(all, func(p problems.Problem) bool { return p.Code == code })
	if i < 0 {
		return problems.Problem{}, false
	}
	return all[i], true
}

// says beats with a host that change has changed.
func (s scripted) says(change func(*protocol.HostInfo)) {
	s.r.t.Helper()
	info := hostInfo()
	change(&info)
	if _, err := s.r.c().Agents().Heartbeat(s.r.t.Context(), s.cred, protocol.Heartbeat{Version: "test", Host: info}); err != nil {
		s.r.t.Fatal(err)
	}
}

func disk(total, free int64) func(*protocol.HostInfo) {
	return func(h *protocol.HostInfo) { h.DiskTotalMB, h.DiskFreeMB = total, free }
}

func backends(bs ...protocol.BackendInfo) func(*protocol.HostInfo) {
	return func(h *protocol.HostInfo) { h.Backends = bs }
}

// A43: a host whose disk is full gets nothing and no registration is minted; what runs there goes on; when there is room again
// the waiting job gets its runner by the heartbeat that says so.
func TestAFullDiskTakesNothingNew(t *testing.T) {
	t.Parallel()
	r, p, h := noAgents(t, nil)
	h.says(disk(1000, 500))
	first := r.job("wait")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": first, "runner_name": row.Name}), "")
	r.runner(store.RunnerBusy)
	mints := r.gh.Stats().Mints

	h.says(disk(1000, 40))
	r.job("ok")
	r.until("the second job is known", func() bool { js, err := r.st.Jobs(t.Context(), store.JobFilter{}); return err == nil && len(js) == 2 })
	r.settle(0)
	if n := r.gh.Stats().Mints; n != mints || len(r.runners()) != 1 {
		t.Errorf("%d registrations were minted for a host whose disk is full; there are %d rows", n-mints, len(r.runners()))
	}
	if got := r.runner(store.RunnerBusy); got.ID != row.ID {
		t.Error("the running job's runner was touched")
	}
	full, ok := r.problem(problems.DiskFull)
	if !ok || !strings.Contains(full.Title, "host-1") || !strings.Contains(full.Title, "96 % full") || full.Fix == "" {
		t.Errorf("the problem is %+v", full)
	}
	if b, _ := r.problem(problems.PoolBlocked); !strings.Contains(b.Fix, "its disk is 96 % full") || !strings.Contains(b.Why, "disk full") {
		t.Errorf("pool %s is blocked so: %+v", p.Name, b)
	}
	if _, page := r.get("/metrics"); !strings.Contains(page, `zoomies_hosts{condition="disk_full"} 1`) || strings.Contains(page, `condition="healthy"`) {
		t.Error("the host counts as healthy")
	}

	h.says(disk(1000, 100))
	create := h.task()
	if create.Kind != protocol.TaskCreate || create.RunnerID == row.ID {
		t.Errorf("after there is room again: %+v", create)
	}
	if p, ok := r.problem(problems.DiskFull); ok {
		t.Errorf("there is room and the problem stands: %+v", p)
	}
}

// A46: a host whose engine is broken or missing is named, with what the probe said and what to do, and is not healthy; a lost host
// is named too. Each clears when it is over, also when the controller has restarted in between or the host is deleted.
func TestHostProblemsComeAndGo(t *testing.T) {
	t.Parallel()
	broken := protocol.BackendInfo{Name: "podman", Error: "cannot reach Podman: no such file"}
	for _, tt := range []struct {
		name      string
		spoil     func(r *rig, h scripted)
		code      problems.Code
		title     string
		why       string
		condition string
	}{
		{"broken", func(_ *rig, h scripted) { h.says(backends(broken)) }, problems.BackendBroken, "can run nothing: it cannot use podman", "no such file", "broken"},
		{"one of two", func(_ *rig, h scripted) { h.says(backends(broken, protocol.BackendInfo{Name: "docker"})) }, problems.BackendBroken, "cannot use podman", "no such file", "healthy"},
		{"lost", func(r *rig, _ scripted) { r.clock.advance(HostLostAfter); r.c().housekeep(r.t.Context()) }, problems.HostLost, "is lost", "last heard from", "lost"},
		{"disk full", func(_ *rig, h scripted) { h.says(disk(100, 1)) }, problems.DiskFull, "99 % full", "1 of 100 MiB", "disk_full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _, h := noAgents(t, nil)
			if all := r.c().Problems(); len(all) != 0 {
				t.Fatalf("problems from the start: %v", all)
			}
			tt.spoil(r, h)
			stands := func(when string) {
				t.Helper()
				p, ok := r.problem(tt.code)
				if !ok || !strings.Contains(p.Title, "host-1") || !strings.Contains(p.Title, tt.title) || !strings.Contains(p.Why, tt.why) || p.Fix == "" {
					t.Errorf("%s: the problem is %+v", when, p)
				}
			}
			stands("raised")
			r.settle(0)
			if _, page := r.get("/metrics"); !strings.Contains(page, `zoomies_hosts{condition="`+tt.condition+`"} 1`) {
				t.Errorf("the metrics do not count the host as %s", tt.condition)
			}
			if tt.condition != "healthy" {
				id := r.job("ok")
				r.until("the job is known", func() bool { js, err := r.st.Jobs(t.Context(), store.JobFilter{}); return err == nil && len(js) == 1 })
				r.settle(0)
				if n := r.gh.Stats().Mints; n != 0 {
					t.Errorf("%d registrations were minted", n)
				}
				r.gh.CancelJob(id)
				r.until("the job waits no more", func() bool {
					js, err := r.st.Jobs(t.Context(), store.JobFilter{})
					return err == nil && len(js) == 1 && js[0].State == store.JobCompleted
				})
			}
			r.stopController()
			r.startController()
			r.until("the new controller has looked", func() bool { _, ok := r.problem(tt.code); return ok })
			stands("after a restart")
			h.says(disk(100, 50))
			if p, ok := r.problem(tt.code); ok {
				t.Errorf("it is over and stands: %+v", p)
			}
			tt.spoil(r, h)
			if err := r.st.DeleteHost(t.Context(), h.cred.HostID); err != nil {
				t.Fatal(err)
			}
			r.c().housekeep(t.Context())
			if p, ok := r.problem(tt.code); ok {
				t.Errorf("its host is deleted and it stands: %+v", p)
			}
		})
	}
}

// A46: a host whose agent names no backend at all can run nothing.
func TestAHostWithoutBackendsIsBroken(t *testing.T) {
	t.Parallel()
	c := &Controller{problems: newProblems()}
	c.judgeHost(store.Host{ID: "hst_1", Name: "bare"})
	if all := c.Problems(); len(all) != 1 || all[0].Code != problems.BackendBroken || !strings.Contains(all[0].Title, "can run nothing") {
		t.Errorf("problems: %+v", all)
	}
}
