package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestAHostIsCordonedDrainedAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	oper, admin := r.as("oz", over(auth.Operator)), r.as("ada", over(auth.Admin))
	id := r.seed.Host.ID
	at := "/api/v1/hosts/" + id
	run := r.runners(r.seed.Pool, 2)
	r.moved(run[1].ID, store.RunnerFailed)

	h := into[api.Host](r.call(oper, "GET", at, nil).want(200))
	if h.Name != "host-1" || h.Health != "healthy" || h.Capacity != 10 || h.UsedSlots != 1 || len(h.Backends) != 1 || h.Backends[0].Version != "5.4.2" || h.Cordoned || h.Draining || h.LostAt != nil {
		t.Errorf("host: %+v", h)
	}
	if h := into[api.Host](r.call(oper, "PUT", at+"/cordon", nil).want(200)); !h.Cordoned || h.Draining {
		t.Errorf("cordoned: %+v", h)
	}
	if h := into[api.Host](r.call(oper, "PUT", at+"/drain", nil).want(200)); !h.Cordoned || !h.Draining {
		t.Errorf("drained: %+v", h)
	}
	row := r.lastAudit("drain-host", 2)
	if !strings.Contains(row.Before, `"draining":false`) || !strings.Contains(row.After, `"draining":true`) || row.ObjectName != "host-1" {
		t.Errorf("audit: %+v", row)
	}
	// A cordon does not end a drain; an uncordon does.
	if h := into[api.Host](r.call(oper, "PUT", at+"/cordon", nil).want(200)); !h.Draining {
		t.Errorf("cordoned while draining: %+v", h)
	}
	r.call(oper, "DELETE", at+"/cordon", nil).want(204)
	if h := into[api.Host](r.call(oper, "GET", at, nil).want(200)); h.Cordoned || h.Draining {
		t.Errorf("uncordoned: %+v", h)
	}

	r.call(oper, "DELETE", at, nil).want(403)
	busy := into[api.Problem](r.call(admin, "DELETE", at, nil).want(409))
	if !strings.Contains(busy.Fix, "Drain it first") {
		t.Errorf("%+v", busy)
	}
	r.moved(run[0].ID, store.RunnerRemoved)
	r.call(admin, "DELETE", at, nil).want(204)
	r.call(admin, "GET", at, nil).want(404)
	r.call(admin, "DELETE", at, nil).want(404)
	if _, err := r.store.HostByToken(context.Background(), id, storetest.HashOfAgentToken); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the host's token still works: %v", err)
	}
	r.lastAudit("delete-host", 5)
	if r.fleet.looks != 5 {
		t.Errorf("the loops were woken %d times", r.fleet.looks)
	}
}

func TestHostsAreListed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	viewer := r.as("vera", over(auth.Viewer))
	b := storetest.Join(t, r.store, "bravo")
	storetest.Join(t, r.store, "alpha")
	r.fleet.health = map[string]string{b.ID: "lost"}
	names := func(query string) string {
		var out []string
		for _, h := range into[api.Page[api.Host]](r.call(viewer, "GET", "/api/v1/hosts"+query, nil).want(200)).Items {
			out = append(out, h.Name)
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"": "alpha bravo host-1", "?sort=-name&limit=2": "host-1 bravo", "?health=lost": "bravo", "?name=alpha": "alpha", "?health=joining": "",
	} {
		if got := names(query); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	refused(t, r, viewer, "GET", "/api/v1/hosts?health=ill", nil, 422)
	refused(t, r, viewer, "PUT", "/api/v1/hosts/"+b.ID+"/cordon", nil, 403)
	refused(t, r, viewer, "GET", "/api/v1/hosts/hst_none", nil, 404)
	refused(t, r, r.as("pia", overPool(auth.Admin, r.seed.Pool.ID)), "GET", "/api/v1/hosts", nil, 403)
	refused(t, r, "", "GET", "/api/v1/hosts", nil, 401)
	if answer := r.call(viewer, "GET", "/api/v1/hosts", nil); strings.Contains(string(answer.body), storetest.HashOfAgentToken) {
		t.Error("a host shows the hash of its token")
	}
}
