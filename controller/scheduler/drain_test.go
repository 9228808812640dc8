package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func runner(s Snapshot, id string) Runner {
	return s.Runners[slices.IndexFunc(s.Runners, func(r Runner) bool { return r.ID == id })]
}

// drains says whether a runner's host is told to empty.
func drains(s Snapshot, r Runner) bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.ID == r.HostID && h.Draining })
}

func draining(h *Host) { h.Draining, h.Cordoned = true, true }

func TestADrainingHostIsEmptied(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 9, draining).host("b", 9).pool("p", nil, func(p *Pool) { p.Min = 1 }).jobs(1, nil).
		runner("starting", "p", provisioning).runner("idle", "p", idle).runner("busy", "p", busy).
		runner("stray", "gone", busy).
		runner("elsewhere", "p", busy, func(r *Runner) { r.HostID = "hst_b" })
	plan := f.decide()
	equal(t, "withdraws", ids(plan, Withdraw), []string{"starting"})
	equal(t, "retires", ids(plan, Retire), []string{"idle"})
	equal(t, "drains", ids(plan, Drain), []string{"busy", "stray"})
	for _, a := range plan.Actions {
		if a.Kind != Create && a.Reason != "its host a is being drained" || a.Kind == Create && a.HostID != "hst_b" {
			t.Errorf("%+v", a)
		}
	}
	// What the runners that leave would have done is done elsewhere.
	if n := len(of(plan, Create)); n != 1 {
		t.Errorf("%d runners are made elsewhere", n)
	}
	if d := decision(t, plan, "p"); d.Live != 4 || d.Desired != 2 {
		t.Errorf("decision: %+v", d)
	}
}

func TestADrainHoldsThePlacesUnderTheMaximum(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 9, draining).host("b", 9).pool("p", nil, func(p *Pool) { p.Max = 2 }).jobs(2, nil).
		runner("idle", "p", idle).runner("busy", "p", busy)
	if plan := f.decide(); len(of(plan, Create)) != 0 {
		t.Errorf("more runners than the maximum: %+v", plan.Actions)
	}
	if e := Explain(f.Snapshot, "job_000"); e.Wait != WaitDraining {
		t.Errorf("explained by %+v", e)
	}
}

func TestAFleetOfDrainingHostsSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 9, draining).pool("p", nil).job("j", nil)
	e := Explain(f.Snapshot, "j")
	if e.Wait != WaitNoHost || !strings.Contains(e.Why, "1 draining") || !strings.Contains(e.Change, "drained") {
		t.Errorf("explained by %+v", e)
	}
}

// Whatever the fleet is like, one decision tells every runner of a draining host to go, and no other.
func TestADrainLeavesNobodyBehind(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		after := apply(s, p)
		for _, r := range after.Runners {
			if r.State != failed && r.State != "draining" && drains(after, r) {
				t.Fatalf("%+v stays on a draining host", r)
			}
		}
	})
}

func TestAPausedPoolIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	pause := func(p *Pool) {
		p.Min, p.Paused = 3, &Pause{Queue: true, Since: ago(time.Hour), By: "ada", Reason: "the rack is hot"}
	}
	f := newFleet().host("a", 9).pool("p", nil, pause).jobs(3, nil).runner("idle", "p", idle).runner("starting", "p", registering)
	plan := f.decide()
	if len(plan.Actions) != 0 {
		t.Errorf("a paused pool does %+v", plan.Actions)
	}
	d := decision(t, plan, "p")
	why := "the queue is paused since 2026-11-03 11:00:00 UTC by ada: the rack is hot"
	if d.Blocked == nil || !d.Blocked.Paused || d.Blocked.Wanted != 1 || !strings.Contains(d.Reason, why) || !strings.Contains(d.Blocked.Fix, "Resume the queue") {
		t.Errorf("decision %+v, blocked %+v", d, d.Blocked)
	}
	if e := Explain(f.Snapshot, "job_002"); e.Wait != WaitPaused || e.Why != why || e.Change != d.Blocked.Fix {
		t.Errorf("explained by %+v", e)
	}
	if e := Explain(f.Snapshot, "job_000"); e.Wait != WaitRunner {
		t.Errorf("an idle runner still takes a job: %+v", e)
	}
}

func TestAPoolOfItsOwnIsPaused(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.ScaleUpDelay, p.Paused = time.Hour, &Pause{Since: ago(time.Hour)} }).job("j", nil).
		pool("q", labels("q")).job("k", labels("q"))
	e := Explain(f.Snapshot, "j")
	if e.Wait != WaitPaused || e.Why != "pool p is paused since 2026-11-03 11:00:00 UTC" || !strings.Contains(e.Change, "Resume pool p") {
		t.Errorf("explained by %+v", e)
	}
	equal(t, "creates", ids(f.decide(), Create), []string{"k"})
}

// A pause only ever takes creates away.
func TestAPauseOnlyHoldsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		paused := s
		paused.Pools = slices.Clone(s.Pools)
		for i := range paused.Pools {
			paused.Pools[i].Paused = &Pause{Queue: true, Since: now}
		}
		a, b := Decide(s), Decide(paused)
		rest := func(p Plan) []Action {
			return slices.DeleteFunc(slices.Clone(p.Actions), func(a Action) bool { return a.Kind == Create })
		}
		if len(of(b, Create)) != 0 || !slices.Equal(rest(a), rest(b)) {
			t.Fatalf("paused: %+v, not paused: %+v", b.Actions, a.Actions)
		}
	})
}

func TestServingNamesTheHostsOfAPool(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 0).host("b", 9, draining).host("c", 9, func(h *Host) { h.Backends = nil }).pool("p", nil)
	var got []string
	for _, v := range Serving(f.Snapshot, "pool_p") {
		got = append(got, v.Name+" "+v.Why)
		if v.Serves != (v.Why == "") {
			t.Errorf("%+v", v)
		}
	}
	equal(t, "verdicts", got, []string{"a ", "b draining", "c no podman"})
	if v := Serving(f.Snapshot, "pool_none"); v != nil {
		t.Errorf("%+v", v)
	}
}
