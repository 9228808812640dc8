package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func completed(conclusion string) func(*store.JobUpdate) {
	return func(u *store.JobUpdate) { u.State, u.Conclusion = store.JobCompleted, conclusion }
}

func TestJobsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, other := r.neighbour()
	one := r.job(r.seed.Installation, 1)
	two := r.job(r.seed.Installation, 2, completed("failure"))
	three := r.job(in, 3, func(u *store.JobUpdate) { u.Repository, u.State = "other/web", store.JobInProgress })
	four := r.job(in, 4, completed("success"))
	for j, p := range map[string]store.Pool{two.ID: r.seed.Pool, three.ID: other} {
		if _, _, err := r.store.AssignJob(context.Background(), j, r.runners(p, 1)[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	names := map[string]string{one.ID: "1", two.ID: "2", three.ID: "3", four.ID: "4"}
	admin := r.as("ada", over(auth.Admin))
	ofPool := r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID))
	ofOther := r.as("ivo", overInstallation(auth.Viewer, in.ID))
	for _, c := range []struct{ token, query, want string }{
		{admin, "", "4 3 2 1"},
		{admin, "?state=queued,in_progress", "3 1"},
		{admin, "?state=completed&conclusion=failure", "2"},
		{admin, "?repository=Other/Web", "3"},
		{admin, "?installation_id=" + in.ID, "4 3"},
		{admin, "?pool_id=" + other.ID, "3"},
		{ofPool, "", "2"},
		{ofOther, "", "4 3"},
	} {
		var got []string
		for _, j := range listed[api.Job](r, c.token, "/api/v1/jobs"+c.query) {
			got = append(got, names[j.ID])
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %q, want %q", c.query, s, c.want)
		}
	}
	r.call(ofPool, "GET", "/api/v1/jobs/"+two.ID, nil).want(200)
	refused(t, r, ofPool, "GET", "/api/v1/jobs/"+one.ID, nil, 404)
	refused(t, r, r.as("nemo"), "GET", "/api/v1/jobs", nil, 403)
	refused(t, r, "", "GET", "/api/v1/jobs", nil, 401)
	refused(t, r, admin, "GET", "/api/v1/jobs?state=lost", nil, 422)
	refused(t, r, admin, "GET", "/api/v1/jobs/job_none", nil, 404)
}

func TestWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	viewer := r.as("vera", over(auth.Viewer))
	for i, c := range []struct{ conclusion, fleet, fault string }{
		{"success", "", ""},
		{"failure", "", "workflow"},
		{"timed_out", "", "workflow"},
		{"cancelled", "", ""},
		{"failure", "host a is lost", "fleet"},
		{"cancelled", "host a is lost", "fleet"},
		{"success", "host a is lost", ""},
		{"", "host a is lost", "fleet"},
		{"", "", ""},
	} {
		j := r.job(r.seed.Installation, int64(i+1), func(u *store.JobUpdate) {
			if u.State = store.JobInProgress; c.conclusion != "" {
				u.State, u.Conclusion = store.JobCompleted, c.conclusion
			}
		})
		if err := r.store.SetJobFleetFault(t.Context(), j.ID, c.fleet); err != nil {
			t.Fatal(err)
		}
		got := into[api.Job](r.call(viewer, "GET", "/api/v1/jobs/"+j.ID, nil).want(200))
		if got.Fault != c.fault || (got.FaultReason != "") != (c.fault == "fleet") {
			t.Errorf("%+v: fault %q, %q", c, got.Fault, got.FaultReason)
		}
	}
}

func TestAJobsTimeline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	viewer := r.as("vera", over(auth.Viewer))
	j := r.job(r.seed.Installation, 1)
	at := "/api/v1/jobs/" + j.ID + "/timeline"
	got := into[api.JobTimeline](r.call(viewer, "GET", at, nil).want(200))
	if len(got.Steps) != 2 || got.WaitedMS != nil || got.RunnerID != "" {
		t.Errorf("queued: %+v", got)
	}
	rows := []store.Runner{{Name: "made-for-it", PoolID: r.seed.Pool.ID, HostID: r.seed.Host.ID, InstallationID: r.seed.Installation.ID, DemandJobID: j.ID}}
	if err := r.store.CreateRunners(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	run := rows[0]
	r.now.step(time.Second)
	r.moved(run.ID, store.RunnerRegistering, store.RunnerIdle)
	got = into[api.JobTimeline](r.call(viewer, "GET", at, nil).want(200))
	if len(got.Steps) != 5 || got.RunnerID != run.ID || got.Runner != "made-for-it" || got.WaitedMS != nil {
		t.Errorf("with a runner on its way: %+v", got)
	}
	start := r.now.now()
	r.job(r.seed.Installation, 1, func(u *store.JobUpdate) {
		u.State, u.StartedAt, u.RunnerName = store.JobInProgress, start, run.Name
	})
	if _, _, err := r.store.AssignJob(t.Context(), j.ID, run.ID); err != nil {
		t.Fatal(err)
	}
	r.job(r.seed.Installation, 1, func(u *store.JobUpdate) {
		u.State, u.Conclusion, u.CompletedAt = store.JobCompleted, "failure", start.Add(90*time.Second)
	})
	got = into[api.JobTimeline](r.call(viewer, "GET", at, nil).want(200))
	var steps []string
	for _, s := range got.Steps {
		steps = append(steps, fmt.Sprintf("%s+%d", s.What, s.AfterMS))
	}
	want := "queued+0 seen+1000 runner_created+1000 container_started+1000 registered+1000 job_started+1000 job_completed+90000"
	if strings.Join(steps, " ") != want {
		t.Errorf("steps: %v\nwant:  %s", steps, want)
	}
	if got.RunnerID != run.ID || got.Runner != run.Name || got.HostID != r.seed.Host.ID || got.PoolID != r.seed.Pool.ID || *got.WaitedMS != 5000 || *got.RanMS != 90000 {
		t.Errorf("%+v", got)
	}
	refused(t, r, viewer, "GET", "/api/v1/jobs/job_none/timeline", nil, 404)
}

func TestAJobIsExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	viewer := r.as("vera", over(auth.Viewer))
	until := r.now.now().Add(time.Hour)
	r.fleet.explain = func(id string) scheduler.Explanation {
		return scheduler.Explanation{
			JobID: id, Wait: scheduler.WaitPaused, Why: "the queue is paused", Change: "Resume the queue.", Pool: "p", PoolID: r.seed.Pool.ID, Position: 2, Queued: 3, Until: until,
			Blocked: &scheduler.Blocked{Wanted: 2, Fix: "Resume the queue.", Paused: true, Causes: []scheduler.Cause{{What: "full", Hosts: 1}}},
			Pools:   []scheduler.PoolVerdict{{PoolID: r.seed.Pool.ID, Name: "p", Takes: true}, {PoolID: "pool_other", Name: "q", Why: "lacks x"}},
		}
	}
	explain := func(token string, j store.Job) api.Explanation {
		t.Helper()
		return into[api.Explanation](r.call(token, "GET", "/api/v1/jobs/"+j.ID+"/explanation", nil).want(200))
	}
	queued := r.job(r.seed.Installation, 1)
	e := explain(viewer, queued)
	if e.Wait != "paused" || e.State != "queued" || e.Position != 2 || e.Blocked == nil || !e.Blocked.Paused || e.Blocked.Causes[0].What != "full" || len(e.Pools) != 2 || !e.Until.Equal(until) {
		t.Errorf("queued: %+v", e)
	}
	r.fleet.explain = func(id string) scheduler.Explanation {
		return scheduler.Explanation{JobID: id, Wait: scheduler.WaitNotQueued}
	}
	if e := explain(viewer, queued); e.Wait != "in_doubt" || e.Change == "" {
		t.Errorf("in doubt: %+v", e)
	}
	if e := explain(viewer, r.job(r.seed.Installation, 2, func(u *store.JobUpdate) { u.State = store.JobWaiting })); e.Wait != "gate" {
		t.Errorf("waiting: %+v", e)
	}
	running := r.job(r.seed.Installation, 3, func(u *store.JobUpdate) { u.State, u.RunnerName = store.JobInProgress, "runner-1" })
	if _, _, err := r.store.AssignJob(t.Context(), running.ID, r.runners(r.seed.Pool, 1)[0].ID); err != nil {
		t.Fatal(err)
	}
	if e := explain(r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID)), running); e.Wait != "not_queued" || e.Why != "it runs on runner runner-1" || e.PoolID != r.seed.Pool.ID {
		t.Errorf("running: %+v", e)
	}
	over := r.job(r.seed.Installation, 4, completed("failure"))
	if err := r.store.SetJobFleetFault(t.Context(), over.ID, "host a is lost"); err != nil {
		t.Fatal(err)
	}
	if e := explain(viewer, over); !strings.Contains(e.Why, "failure") || !strings.Contains(e.Why, "host a is lost") {
		t.Errorf("over: %+v", e)
	}
	refused(t, r, viewer, "GET", "/api/v1/jobs/job_none/explanation", nil, 404)
	refused(t, r, r.as("nemo"), "GET", "/api/v1/jobs/"+queued.ID+"/explanation", nil, 403)
}

func TestAJobIsRunAgainAndCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	oper := r.as("ivo", overInstallation(auth.Operator, r.seed.Installation.ID))
	j := r.job(r.seed.Installation, 1, completed("failure"))
	for i, what := range []string{"rerun", "cancel"} {
		at := "/api/v1/jobs/" + j.ID + "/" + what
		if got := into[api.Job](r.call(oper, "POST", at, nil).want(200)); got.ID != j.ID {
			t.Errorf("%+v", got)
		}
		if row := r.lastAudit(what+"-job", i+1); row.ObjectName != "acme/app test 1" {
			t.Errorf("audit: %+v", row)
		}
		refused(t, r, r.as("vera"+what, over(auth.Viewer)), "POST", at, nil, 403)
		refused(t, r, "", "POST", at, nil, 401)
		refused(t, r, oper, "POST", "/api/v1/jobs/job_none/"+what, nil, 404)
	}
	if s := strings.Join(r.fleet.asked, ","); s != "rerun "+j.ID+",cancel "+j.ID {
		t.Errorf("GitHub was asked: %s", s)
	}
	for name, c := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"refused":       {&github.CallError{}, 502, "could not be asked"},
		"in no state":   {fmt.Errorf("x: %w", github.ErrRefused), 409, "GitHub refused"},
		"gone":          {github.ErrNotFound, 409, "no such job"},
		"no permission": {github.ErrUnauthorized, 409, "Actions: read and write"},
		"lost":          {github.ErrUnknown, 502, "may have done it"},
		"held":          {&github.LimitError{Until: r.now.now().Add(time.Minute), Reason: "secondary limit"}, 503, "secondary limit"},
		"no key":        {fmt.Errorf("cannot use installation acme: %w: the private key", github.ErrUnusable), 409, "zoomies installations update"},
		"ours":          {errors.New("the disk is full"), 500, "request_id"},
	} {
		r.fleet.github = c.err
		a := r.call(oper, "POST", "/api/v1/jobs/"+j.ID+"/rerun", nil).want(c.status)
		if !strings.Contains(string(a.body), c.says) || strings.Contains(string(a.body), "disk") || into[api.Problem](a).Fix == "" {
			t.Errorf("%s: %s", name, a.body)
		}
		if retry := a.header.Get("Retry-After"); (retry != "") != (name == "held") {
			t.Errorf("%s: Retry-After %q", name, retry)
		}
	}
	r.lastAudit("cancel-job", 2) // what GitHub refused left no row
}
