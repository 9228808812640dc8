package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

func TestACreateWithAKeyIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada, bob := r.as("ada", over(auth.Admin)), r.as("bob", over(auth.Admin))
	body := map[string]any{"name": "once", "installation_id": r.seed.Installation.ID}
	first := r.call(ada, "POST", "/api/v1/pools", body, "Idempotency-Key", "k1").want(http.StatusCreated)
	again := r.call(ada, "POST", "/api/v1/pools", body, "Idempotency-Key", "k1").want(http.StatusCreated)
	if string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s\nagain %s %v", first.body, again.body, again.header)
	}
	// Another body with the same key, the same key of another caller, and another key.
	r.call(ada, "POST", "/api/v1/pools", map[string]any{"name": "twice", "installation_id": r.seed.Installation.ID}, "Idempotency-Key", "k1").want(422)
	r.call(bob, "POST", "/api/v1/pools", body, "Idempotency-Key", "k1").want(409)
	r.call(ada, "POST", "/api/v1/pools", body, "Idempotency-Key", "k2").want(409)
	r.call(ada, "POST", "/api/v1/pools", body, "Idempotency-Key", strings.Repeat("k", 256)).want(422)
	// A request that failed may be mended and sent again with its key.
	bad := map[string]any{"name": "mended", "installation_id": "ins_none"}
	r.call(ada, "POST", "/api/v1/pools", bad, "Idempotency-Key", "k3").want(422)
	bad["installation_id"] = r.seed.Installation.ID
	r.call(ada, "POST", "/api/v1/pools", bad, "Idempotency-Key", "k3").want(201)
	if n := len(r.audit()); n != 2 {
		t.Errorf("%d audit rows for two pools", n)
	}
}

func TestBudgetsShedOneCallerAndNotTheOthers(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Limits = api.Limits{Client: 3, Address: 2} })
	ada, bob := r.as("ada", over(auth.Viewer)), r.as("bob", over(auth.Viewer))
	for range 3 {
		r.call(ada, "GET", "/api/v1/pools", nil).want(200)
	}
	shed := r.call(ada, "GET", "/api/v1/pools", nil).want(429)
	if shed.header.Get("Retry-After") == "" {
		t.Errorf("headers: %v", shed.header)
	}
	r.call(bob, "GET", "/api/v1/pools", nil).want(200)
	for range 2 {
		r.call("", "GET", "/api/v1/openapi.json", nil).want(200)
	}
	r.call("", "GET", "/api/v1/openapi.json", nil).want(429)
	r.call(bob, "GET", "/api/v1/pools", nil).want(200)
}
