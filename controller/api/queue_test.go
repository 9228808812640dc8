package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func TestTheQueueIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	oper, viewer := r.as("oz", over(auth.Operator)), r.as("vera", over(auth.Viewer))
	r.job(r.seed.Installation, 1)
	r.job(r.seed.Installation, 2, func(u *store.JobUpdate) { u.State = store.JobWaiting })
	r.job(r.seed.Installation, 3, func(u *store.JobUpdate) { u.State = store.JobInProgress })
	r.job(r.seed.Installation, 4, func(u *store.JobUpdate) { u.State = store.JobCompleted })
	r.call(oper, "PUT", "/api/v1/pools/"+r.seed.Pool.ID+"/pause", map[string]any{}).want(200)

	q := into[api.Queue](r.call(viewer, "GET", "/api/v1/queue", nil).want(200))
	if q.Paused || q.Queued != 1 || q.Waiting != 1 || q.InProgress != 1 || len(q.PausedPools) != 1 || q.PausedPools[0] != r.seed.Pool.Name {
		t.Errorf("queue: %+v", q)
	}
	since := r.now.now()
	q = into[api.Queue](r.call(oper, "PUT", "/api/v1/queue/pause", map[string]any{"reason": "the rack is hot"}).want(200))
	if !q.Paused || q.PausedBy == "" || q.PauseReason != "the rack is hot" || !q.PausedAt.Equal(since) {
		t.Errorf("paused: %+v", q)
	}
	r.now.step(5)
	q = into[api.Queue](r.call(oper, "PUT", "/api/v1/queue/pause", map[string]any{"reason": "still"}).want(200))
	if q.PauseReason != "still" || !q.PausedAt.Equal(since) {
		t.Errorf("paused again: %+v", q)
	}
	row := r.lastAudit("pause-queue", 3)
	if !strings.Contains(row.Before, "the rack is hot") || !strings.Contains(row.After, "still") {
		t.Errorf("audit: %+v", row)
	}
	r.call(oper, "DELETE", "/api/v1/queue/pause", nil).want(204)
	if q := into[api.Queue](r.call(viewer, "GET", "/api/v1/queue", nil).want(200)); q.Paused || q.PausedAt != nil {
		t.Errorf("resumed: %+v", q)
	}
	r.lastAudit("resume-queue", 4)
	if r.fleet.looks != 4 {
		t.Errorf("the loops were woken %d times", r.fleet.looks)
	}
	refused(t, r, viewer, "PUT", "/api/v1/queue/pause", map[string]any{}, 403)
	refused(t, r, viewer, "DELETE", "/api/v1/queue/pause", nil, 403)
	refused(t, r, r.as("ivo", overInstallation(auth.Operator, r.seed.Installation.ID)), "PUT", "/api/v1/queue/pause", map[string]any{}, 403)
	refused(t, r, oper, "PUT", "/api/v1/queue/pause", map[string]any{"reason": strings.Repeat("x", 501)}, 422)
	refused(t, r, "", "GET", "/api/v1/queue", nil, 401)

	// A pause that nobody can read can still be ended.
	if err := r.store.SetSetting(context.Background(), "internal.queue_paused", "{"); err != nil {
		t.Fatal(err)
	}
	refused(t, r, viewer, "GET", "/api/v1/queue", nil, 500)
	r.call(oper, "DELETE", "/api/v1/queue/pause", nil).want(204)
	r.call(viewer, "GET", "/api/v1/queue", nil).want(200)
}

func TestPrewarmingSaysWhichHostsWereAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fleet.serving = []scheduler.HostVerdict{{HostID: "hst_a", Name: "a", Serves: true}, {HostID: "hst_b", Name: "b", Why: "cordoned"}}
	oper := r.as("pia", overPool(auth.Operator, r.seed.Pool.ID))
	at := "/api/v1/pools/" + r.seed.Pool.ID + "/prewarm"
	got := into[api.Prewarm](r.call(oper, "POST", at, nil).want(200))
	if len(got.Images) != 1 || len(got.Asked) != 1 || got.Asked[0].Host != "a" || len(got.Passed) != 1 || got.Passed[0].Why != "cordoned" {
		t.Errorf("%+v", got)
	}
	r.lastAudit("prewarm-pool", 1)
	refused(t, r, r.as("vera", over(auth.Viewer)), "POST", at, nil, 403)
	refused(t, r, oper, "POST", "/api/v1/pools/pool_none/prewarm", nil, 404)
	p := r.seed.Pool
	p.Backend = "process"
	if err := r.store.UpdatePool(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	refused(t, r, oper, "POST", at, nil, 409)
	r.lastAudit("prewarm-pool", 1)
}
