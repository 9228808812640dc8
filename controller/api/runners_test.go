package api_test

import (
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// listed reads every page of a list.
func listed[T any](r *rig, token, path string) []T {
	r.t.Helper()
	var all []T
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	for cursor, n := "", 0; n < 20; n++ {
		page := into[api.Page[T]](r.call(token, "GET", path+join+"limit=2&cursor="+cursor, nil).want(200))
		if len(page.Items) > 2 {
			r.t.Fatalf("a page of %d", len(page.Items))
		}
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
	r.t.Fatal("the pages do not end")
	return nil
}

func TestRunnersAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, other := r.neighbour()
	mine, theirs := r.runners(r.seed.Pool, 4), r.runners(other, 3)
	r.moved(mine[0].ID, store.RunnerFailed)
	r.moved(mine[1].ID, store.RunnerRegistering, store.RunnerIdle)
	admin := r.as("ada", over(auth.Admin))
	ofPool := r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID))
	ofOther := r.as("ivo", overInstallation(auth.Viewer, in.ID))
	both := r.as("bo", overInstallation(auth.Viewer, in.ID), overPool(auth.Viewer, r.seed.Pool.ID))

	ids := func(token, query string) string {
		var out []string
		for _, x := range listed[api.Runner](r, token, "/api/v1/runners"+query) {
			for i, m := range mine {
				if m.ID == x.ID {
					out = append(out, "m"+string(rune('0'+i)))
				}
			}
			for i, o := range theirs {
				if o.ID == x.ID {
					out = append(out, "o"+string(rune('0'+i)))
				}
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ token, query, want string }{
		{admin, "", "o2 o1 o0 m3 m2 m1 m0"},
		{admin, "?live=true", "o2 o1 o0 m3 m2 m1"},
		{admin, "?state=idle,failed", "m1 m0"},
		{admin, "?state=idle&live=true", "m1"},
		{admin, "?pool_id=" + r.seed.Pool.ID, "m3 m2 m1 m0"},
		{admin, "?installation_id=" + in.ID, "o2 o1 o0"},
		{admin, "?host_id=hst_none", ""},
		{ofPool, "", "m3 m2 m1 m0"},
		{ofPool, "?pool_id=" + other.ID, ""},
		{ofOther, "", "o2 o1 o0"},
		{both, "", "o2 o1 o0 m3 m2 m1 m0"},
	} {
		if got := ids(c.token, c.query); got != c.want {
			t.Errorf("%s: got %q, want %q", c.query, got, c.want)
		}
	}
	refused(t, r, r.as("nemo"), "GET", "/api/v1/runners", nil, 403)
	refused(t, r, "", "GET", "/api/v1/runners", nil, 401)
	refused(t, r, admin, "GET", "/api/v1/runners?state=asleep", nil, 422)
	refused(t, r, admin, "GET", "/api/v1/runners?cursor=rubbish", nil, 422)
	refused(t, r, ofPool, "GET", "/api/v1/runners/"+theirs[0].ID, nil, 404)
	refused(t, r, ofPool, "GET", "/api/v1/runners/run_none", nil, 404)
	pools := into[api.Page[api.Pool]](r.call(admin, "GET", "/api/v1/pools?limit=1", nil)).NextCursor
	refused(t, r, admin, "GET", "/api/v1/runners?cursor="+pools, nil, 422)
}

func TestARunnersTimeline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	viewer := r.as("vera", over(auth.Viewer))
	run := r.runners(r.seed.Pool, 2)
	r.moved(run[0].ID, store.RunnerRegistering, store.RunnerIdle, store.RunnerBusy, store.RunnerDraining)
	if _, _, err := r.store.TransitionRunner(t.Context(), run[0].ID, store.RunnerRemoved, store.Change{}); err != nil {
		t.Fatal(err)
	}
	got := into[api.RunnerTimeline](r.call(viewer, "GET", "/api/v1/runners/"+run[0].ID+"/timeline", nil).want(200))
	var steps []string
	for _, s := range got.Steps {
		steps = append(steps, s.What+":"+s.Why)
	}
	if want := "runner_created:1 job queued,container_started:,registered:,job_started:,draining:it is draining,runner_finished:"; strings.Join(steps, ",") != want || got.State != "removed" {
		t.Errorf("steps: %v", steps)
	}
	if got.Steps[2].AfterMS != 1000 || got.Steps[0].AfterMS != 0 {
		t.Errorf("%+v", got.Steps)
	}
	r.moved(run[1].ID, store.RunnerFailed)
	got = into[api.RunnerTimeline](r.call(viewer, "GET", "/api/v1/runners/"+run[1].ID+"/timeline", nil).want(200))
	if len(got.Steps) != 2 || got.Steps[1].Why != "it is failed" {
		t.Errorf("a failed one: %+v", got.Steps)
	}
	refused(t, r, viewer, "GET", "/api/v1/runners/run_none/timeline", nil, 404)
}

func TestARunnerIsStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	oper := r.as("oz", overPool(auth.Operator, r.seed.Pool.ID))
	run := r.runners(r.seed.Pool, 1)[0]
	r.moved(run.ID, store.RunnerRegistering, store.RunnerBusy)
	at := "/api/v1/runners/" + run.ID
	refused(t, r, r.as("vera", over(auth.Viewer)), "DELETE", at, nil, 403)
	r.call(oper, "DELETE", at, nil).want(204)
	got := into[api.Runner](r.call(oper, "GET", at, nil).want(200))
	if got.State != "draining" || !strings.HasPrefix(got.Message, "it was stopped by oz") || got.DrainAt == nil {
		t.Errorf("stopped: %+v", got)
	}
	row := r.lastAudit("stop-runner", 1)
	if !strings.Contains(row.Before, `"state":"busy"`) || !strings.Contains(row.After, `"state":"draining"`) {
		t.Errorf("audit: %+v", row)
	}
	r.call(oper, "DELETE", at, nil).want(204) // again: nothing changes
	if again := into[api.Runner](r.call(oper, "GET", at, nil).want(200)); !again.DrainAt.Equal(*got.DrainAt) {
		t.Errorf("stopped twice: %+v", again)
	}
	r.moved(run.ID, store.RunnerRemoved)
	p := into[api.Problem](r.call(oper, "DELETE", at, nil).want(409))
	if !strings.Contains(p.Detail, "has ended") {
		t.Errorf("%+v", p)
	}
	refused(t, r, oper, "DELETE", "/api/v1/runners/run_none", nil, 404)
	r.lastAudit("stop-runner", 2)
}
