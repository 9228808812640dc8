package scheduler

import (
	"slices"
	"testing"
	"time"
)

func TestReaping(t *testing.T) {
	t.Parallel()
	made := func(d time.Duration) func(*Runner) { return func(r *Runner) { r.CreatedAt = ago(d) } }
	since := func(d time.Duration) func(*Runner) { return func(r *Runner) { r.StateAt = ago(d) } }
	over := func(d time.Duration) func(*Runner) { return func(r *Runner) { r.FinishedAt = ago(d) } }
	keep := func(n int) func(*Pool) { return func(p *Pool) { p.Min = n } }
	life := func(p *Pool) { p.MaxLifetime = time.Hour }
	off := func(p *Pool) { p.Enabled = false }
	const m, s = time.Minute, time.Second
	for _, c := range []struct {
		rule  string
		fleet *fleet
		kind  Kind
		want  []string
	}{
		{"a failed runner is removed after its retention", newFleet().pool("p", nil).
			runner("a", "p", failed, over(10*m)).runner("b", "p", failed, over(10*m-s)), Remove, []string{"a"}},
		{"a failed runner without an end counts from its state", newFleet().pool("p", nil).
			runner("a", "p", failed, func(r *Runner) { r.FinishedAt = time.Time{} }, since(11*m)), Remove, []string{"a"}},
		{"provisioning too long fails", newFleet().pool("p", nil, keep(2)).
			runner("a", "p", provisioning, made(20*m)).runner("b", "p", provisioning, made(20*m-s)), Fail, []string{"a"}},
		{"registering too long fails, counted from its creation", newFleet().pool("p", nil, keep(1)).
			runner("a", "p", registering, made(20*m), since(s)), Fail, []string{"a"}},
		{"idle and busy runners do not time out", newFleet().pool("p", nil, keep(2)).
			runner("a", "p", idle, made(time.Hour)).runner("b", "p", busy, made(time.Hour)).runner("c", "p", "draining", made(time.Hour)), Fail, nil},
		{"only an idle runner dies of its lifetime", newFleet().pool("p", nil, keep(3), life).
			runner("a", "p", idle, made(time.Hour)).runner("b", "p", busy, made(2*time.Hour)).runner("c", "p", "draining", made(2*time.Hour)).
			runner("d", "p", idle, made(time.Hour-s)), Retire, []string{"a"}},
		{"the lifetime of the fleet holds where the pool has none", newFleet().tune(func(t *Tunables) { t.MaxLifetime = m }).pool("p", nil, keep(1)).
			runner("a", "p", idle, made(m)), Retire, []string{"a"}},
		{"a pool's lifetime outweighs the fleet's", newFleet().tune(func(t *Tunables) { t.MaxLifetime = m }).pool("p", nil, keep(1), life).
			runner("a", "p", idle, made(m)), Retire, nil},
		{"a surplus idle runner leaves after the idle timeout", newFleet().pool("p", nil).
			runner("a", "p", idle, since(5*m)).runner("b", "p", idle, since(5*m-s)), Retire, []string{"a"}},
		{"the longest idle leave first, and the minimum stays", newFleet().pool("p", nil, keep(1)).
			runner("a", "p", idle, since(6*m)).runner("b", "p", idle, since(8*m)).runner("c", "p", idle, since(7*m)), Retire, []string{"b", "c"}},
		{"idle runners stay for queued jobs", newFleet().pool("p", nil).jobs(1, nil).
			runner("a", "p", idle, since(6*m)).runner("b", "p", idle, since(8*m)), Retire, []string{"b"}},
		{"without an idle timeout a surplus leaves at once", newFleet().pool("p", nil, func(p *Pool) { p.IdleTimeout = 0 }).
			runner("a", "p", idle, since(0)), Retire, []string{"a"}},
		{"starting runners leave before idle ones", newFleet().pool("p", nil).jobs(1, nil).
			runner("a", "p", idle, since(6*m)).runner("b", "p", registering), Retire, nil},
		{"starting runners are withdrawn at once, newest first", newFleet().pool("p", nil).jobs(1, nil).
			runner("a", "p", provisioning, made(30*s)).runner("b", "p", registering, made(40*s)).runner("c", "p", provisioning, made(10*s)), Withdraw, []string{"c", "a"}},
		{"starting runners below the minimum stay", newFleet().pool("p", nil, keep(1)).runner("a", "p", provisioning), Withdraw, nil},
		{"a disabled pool retires its idle runners", newFleet().pool("p", nil, off, keep(2)).
			runner("a", "p", idle, since(s)).runner("b", "p", busy).runner("c", "p", "draining"), Retire, []string{"a"}},
		{"a disabled pool withdraws its starting runners", newFleet().pool("p", nil, off, keep(2)).
			runner("a", "p", provisioning).runner("b", "p", registering), Withdraw, []string{"b", "a"}},
		{"a disabled pool still fails and removes", newFleet().pool("p", nil, off).runner("a", "p", provisioning, made(20*m)), Fail, []string{"a"}},
		{"a pool that is gone retires its idle runners", newFleet().runner("a", "gone", idle).runner("b", "gone", busy), Retire, []string{"a"}},
		{"a pool that is gone withdraws its starting runners", newFleet().runner("a", "gone", provisioning), Withdraw, []string{"a"}},
		{"a pool that is gone fails what is stuck", newFleet().runner("a", "gone", registering, made(time.Hour)), Fail, []string{"a"}},
		{"a pool that is gone has its failures removed", newFleet().runner("a", "gone", failed, over(11*m)).runner("b", "gone", failed), Remove, []string{"a"}},
		{"a state that nobody knows is left alone", newFleet().pool("p", nil, off).runner("a", "p", "dreaming", made(time.Hour)), Retire, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			got := ids(c.fleet.host("a", 20).decide(), c.kind)
			if !slices.Equal(got, slices.Concat([]string{}, c.want)) {
				t.Errorf("%s %q, want %q", c.kind, got, c.want)
			}
		})
	}
}

func TestSettingsThatNobodyFilledInTakeTheirDefaults(t *testing.T) {
	t.Parallel()
	f := newFleet().tune(func(t *Tunables) { *t = Tunables{} }).host("a", 5).pool("p", nil, func(p *Pool) { p.Min = 1 }).
		runner("r", "p", provisioning).runner("f", "p", failed)
	if plan := f.decide(); len(plan.Actions) != 0 {
		t.Errorf("a fleet without settings does %+v", plan.Actions)
	}
}

func TestTheDefaultsHoldTogether(t *testing.T) {
	t.Parallel()
	if MaxStartBackoff >= FailedRetention {
		t.Error("the longest backoff must end before the failures it is counted from are gone")
	}
	if StartBackoff > MaxStartBackoff || HeartbeatTimeout >= DefaultProvisionTimeout {
		t.Error("the defaults are out of order")
	}
	if DefaultTunables() != (Tunables{}).filled() {
		t.Error("the defaults differ from what an empty setting takes")
	}
}

func TestAFailedStartFreesItsSlotAtOnce(t *testing.T) {
	t.Parallel()
	plan := newFleet().host("a", 1).pool("p", nil).pool("q", labels("q")).job("j", labels("q")).
		runner("stuck", "p", provisioning, func(r *Runner) { r.CreatedAt = ago(time.Hour) }).decide()
	equal(t, "fails", ids(plan, Fail), []string{"stuck"})
	equal(t, "creates", ids(plan, Create), []string{"j"})
	if plan.Actions[0].Kind != Fail {
		t.Error("the create comes before what frees its slot")
	}
}

func TestARetiredRunnerKeepsItsSlot(t *testing.T) {
	t.Parallel()
	plan := newFleet().host("a", 1).pool("p", nil).pool("q", labels("q")).job("j", labels("q")).
		runner("r", "p", idle, func(r *Runner) { r.StateAt = ago(time.Hour) }).decide()
	equal(t, "retires", ids(plan, Retire), []string{"r"})
	equal(t, "creates", ids(plan, Create), []string{})
}
