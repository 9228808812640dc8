package scheduler

import (
	"strings"
	"testing"
	"time"
)

func TestDesired(t *testing.T) {
	t.Parallel()
	size := func(lo, hi int) func(*Pool) { return func(p *Pool) { p.Min, p.Max = lo, hi } }
	for _, c := range []struct {
		rule    string
		fleet   *fleet
		desired int
		creates int
	}{
		{"nothing queued wants nothing", newFleet().pool("p", nil), 0, 0},
		{"each queued job wants a runner", newFleet().pool("p", nil).jobs(3, nil), 3, 3},
		{"busy runners are added to the queued jobs", newFleet().pool("p", nil).runner("r1", "p", busy).jobs(2, nil), 3, 2},
		{"idle runners answer queued jobs", newFleet().pool("p", nil).runner("r1", "p", idle).jobs(2, nil), 2, 1},
		{"starting runners answer queued jobs", newFleet().pool("p", nil).runner("r1", "p", provisioning).runner("r2", "p", registering).jobs(2, nil), 2, 0},
		{"the minimum is kept warm", newFleet().pool("p", nil, size(2, 5)), 2, 2},
		{"the minimum counts busy runners", newFleet().pool("p", nil, size(2, 5)).runner("r1", "p", busy), 2, 1},
		{"the maximum bounds the queue", newFleet().pool("p", nil, size(0, 2)).jobs(5, nil), 2, 2},
		{"the maximum bounds the minimum", newFleet().pool("p", nil, size(5, 2)), 2, 2},
		{"a maximum of zero wants nothing", newFleet().pool("p", nil, size(1, 0)).jobs(1, nil), 0, 0},
		{"negative bounds are zero", newFleet().pool("p", nil, size(-3, -1)).jobs(1, nil), 0, 0},
		{"draining runners answer nothing", newFleet().pool("p", nil).runner("r1", "p", "draining").jobs(1, nil), 1, 1},
		{"draining runners count towards the maximum", newFleet().pool("p", nil, size(0, 2)).runner("r1", "p", "draining").jobs(2, nil), 2, 1},
		{"a runner retired in this very decision counts towards the maximum", newFleet().pool("p", nil, size(1, 1), func(p *Pool) { p.MaxLifetime = time.Second }).runner("r1", "p", idle), 1, 0},
		{"a disabled pool wants nothing", newFleet().pool("p", nil, size(2, 5), func(p *Pool) { p.Enabled = false }), 0, 0},
		{"waiting and completed jobs count for nothing", newFleet().pool("p", nil).
			job("j1", nil, func(j *Job) { j.State = "waiting" }).job("j2", nil, func(j *Job) { j.State = "completed" }), 0, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			plan := c.fleet.host("a", 20).decide()
			if d := decision(t, plan, "p"); d.Desired != c.desired {
				t.Errorf("desired %d, want %d (%s)", d.Desired, c.desired, d.Reason)
			}
			if n := len(of(plan, Create)); n != c.creates {
				t.Errorf("%d creates, want %d", n, c.creates)
			}
		})
	}
}

func TestScaleUpDelayHoldsAJobBack(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 5).pool("p", nil, func(p *Pool) { p.ScaleUpDelay = 10 * time.Second }).
		job("young", nil, func(j *Job) { j.QueuedAt = ago(9 * time.Second) }).
		job("ripe", nil, func(j *Job) { j.QueuedAt = ago(10 * time.Second) })
	plan := f.decide()
	equal(t, "creates", ids(plan, Create), []string{"ripe"})
	if d := decision(t, plan, "p"); d.Queued != 2 || d.Desired != 1 {
		t.Errorf("queued %d, desired %d, want 2 and 1", d.Queued, d.Desired)
	}
}

func TestAJobOfTheFutureIsNotHeldBackWithoutADelay(t *testing.T) {
	t.Parallel()
	plan := newFleet().host("a", 5).pool("p", nil).job("j", nil, func(j *Job) { j.QueuedAt = now.Add(time.Minute) }).decide()
	equal(t, "creates", ids(plan, Create), []string{"j"})
}

func TestRepositoryLimit(t *testing.T) {
	t.Parallel()
	limit := func(p *Pool) { p.RepoLimit = 2 }
	ofRepo := func(r string) func(*Job) { return func(j *Job) { j.Repository = r } }
	t.Run("one repository takes no more than its limit", func(t *testing.T) {
		t.Parallel()
		plan := newFleet().host("a", 20).pool("p", nil, limit).jobs(4, nil).job("other", nil, ofRepo("acme/web")).decide()
		equal(t, "creates", ids(plan, Create), []string{"job_000", "job_001", "other"})
	})
	t.Run("its busy runners count", func(t *testing.T) {
		t.Parallel()
		plan := newFleet().host("a", 20).pool("p", nil, limit).jobs(4, nil).
			runner("r", "p", busy, func(r *Runner) { r.Repository = "Acme/App" }).decide()
		equal(t, "creates", ids(plan, Create), []string{"job_000"})
	})
	t.Run("a busy runner and its job in progress count once", func(t *testing.T) {
		t.Parallel()
		plan := newFleet().host("a", 20).pool("p", nil, limit).jobs(4, nil).
			job("mine", nil, func(j *Job) { j.State = inProgress }).
			runner("r", "p", busy, func(r *Runner) { r.Repository = "acme/app" }).decide()
		equal(t, "creates", ids(plan, Create), []string{"job_000"})
	})
	t.Run("a job in progress on a draining runner counts", func(t *testing.T) {
		t.Parallel()
		plan := newFleet().host("a", 20).pool("p", nil, limit).jobs(4, nil).
			job("mine", nil, func(j *Job) { j.State = inProgress }).runner("r", "p", "draining").decide()
		equal(t, "creates", ids(plan, Create), []string{"job_000"})
	})
	t.Run("the runners that start for it are not taken for more of its jobs", func(t *testing.T) {
		t.Parallel()
		s := newFleet().host("a", 20).pool("p", nil, limit).jobs(4, nil).Snapshot
		s = apply(s, Decide(s))
		if plan := Decide(s); len(plan.Actions) != 0 {
			t.Errorf("the second decision does %+v", plan.Actions)
		}
	})
}

func TestCreatesAnswerTheOldestJobsFirst(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) func(*Job) { return func(j *Job) { j.QueuedAt = ago(d) } }
	f := newFleet().host("a", 20).pool("p", nil, func(p *Pool) { p.Min, p.Max = 4, 10 }).
		job("young", nil, at(time.Second)).job("old", nil, at(time.Hour)).job("mid", nil, at(time.Minute))
	// The fourth is for nobody: it fills the minimum.
	equal(t, "creates", ids(f.decide(), Create), []string{"old", "mid", "young", ""})

	f.runner("r1", "p", idle)
	equal(t, "creates with one idle", ids(f.decide(), Create), []string{"mid", "young", ""})
}

func TestARunnerCoversTheJobItWasMadeFor(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) func(*Job) { return func(j *Job) { j.QueuedAt = ago(d) } }
	f := newFleet().host("a", 20).pool("p", nil).
		job("late news", nil, at(time.Hour)). // older, but we heard of it last
		job("known", nil, at(time.Minute)).
		runner("r1", "p", registering, func(r *Runner) { r.DemandJobID = "known" })
	equal(t, "creates", ids(f.decide(), Create), []string{"late news"})
}

func TestReasonsOfPools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fleet *fleet
		want  string
	}{
		{newFleet().host("a", 9).pool("p", nil).runner("r", "p", busy).jobs(2, nil), "pool p: 1→3 runners, 2 jobs queued for 4s, 1 busy"},
		{newFleet().host("a", 9).pool("p", nil), "pool p: 0 runners, no job queued"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Min = 2 }), "pool p: 0→2 runners, the minimum is 2"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 1 }).jobs(2, nil), "pool p: 0→1 runners, 2 jobs queued for 4s, the maximum is 1"},
		{newFleet().host("a", 1).pool("p", nil).jobs(2, nil), "pool p: 0→1 runners, 2 jobs queued for 4s, no host for 1: 1 full"},
		{newFleet().pool("p", nil).jobs(1, nil), "pool p: 0 runners, 1 job queued for 4s, no host for 1: the fleet has none"},
		{newFleet().host("a", 9).pool("p", nil).jobs(3, nil).tune(func(t *Tunables) { t.TickBudget = 1 }),
			"pool p: 0→1 runners, 3 jobs queued for 4s, 2 left for the next pass by the limit of 1 create in one pass"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Held = "GitHub asked us to wait" }).jobs(1, nil),
			"pool p: 0 runners, 1 job queued for 4s, 1 held: GitHub asked us to wait"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Enabled = false }).runner("r", "p", idle), "pool p: 1→0 runners, disabled"},
		{newFleet().host("a", 9).pool("p", nil).runner("r", "p", failed, func(r *Runner) { r.FinishedAt = ago(4 * time.Second) }).jobs(1, nil),
			"pool p: 0 runners, 1 job queued for 4s, 1 held back for 6s after 1 failure"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.ScaleUpDelay = time.Hour }).jobs(1, nil),
			"pool p: 0 runners, 1 job queued for 4s, 1 within the scale-up delay of 1h"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.RepoLimit = 1 }).jobs(2, nil),
			"pool p: 0→1 runners, 2 jobs queued for 4s, 1 over the limit of 1 runner for each repository"},
		{newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 1 }).runner("r", "p", "draining").jobs(1, nil),
			"pool p: 0 runners, 1 job queued for 4s, 1 held back until draining runners are gone"},
	} {
		plan := c.fleet.decide()
		if got := decision(t, plan, "p").Reason; got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		for _, a := range of(plan, Create) {
			if a.Reason != c.want {
				t.Errorf("a create says %q, its pool %q", a.Reason, c.want)
			}
		}
	}
}

func TestSpansReadWell(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "under 1s", 4*time.Second + 7*time.Millisecond: "4s", 20 * time.Minute: "20m", 90 * time.Second: "1m30s",
		time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v reads %q, want %q", d, got, want)
		}
	}
	if strings.Contains(span(-time.Minute), "-") {
		t.Error("a negative span is shown")
	}
}
