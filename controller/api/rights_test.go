package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// neighbour is a second installation with a pool of its own.
func (r *rig) neighbour() (store.Installation, store.Pool) {
	r.t.Helper()
	ctx := context.Background()
	in, err := r.store.CreateInstallation(ctx, store.Installation{
		Name: "other", AppID: 8, InstallationID: 80, Account: "other", AccountType: "Organization",
		PrivateKey: secrets.Of("k"), WebhookSecret: secrets.Of("w"),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := r.store.CreatePool(ctx, store.Pool{Name: "other-pool", InstallationID: in.ID, Backend: "podman", PullPolicy: "missing", Max: 1, Enabled: true, Ephemeral: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return in, p
}

func TestGrantsCanBeNarrowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, other := r.neighbour()
	mine := r.seed.Pool.ID
	ofPool := r.as("pia", overPool(auth.Admin, mine))
	ofInstallation := r.as("ivo", overInstallation(auth.Operator, r.seed.Installation.ID))
	fleetViewer := r.as("vera", over(auth.Viewer))
	nobody := r.as("nemo")

	for _, c := range []struct {
		name, token, method, path string
		body                      any
		status                    int
	}{
		{"own pool", ofPool, "GET", "/api/v1/pools/" + mine, nil, 200},
		{"another's pool is not there", ofPool, "GET", "/api/v1/pools/" + other.ID, nil, 404},
		{"and cannot be changed", ofPool, "PATCH", "/api/v1/pools/" + other.ID, map[string]any{"max": 2}, 404},
		{"own pool changed", ofPool, "PATCH", "/api/v1/pools/" + mine, map[string]any{"max": 2}, 200},
		{"no new pool", ofPool, "POST", "/api/v1/pools", map[string]any{"name": "x", "installation_id": r.seed.Installation.ID}, 403},
		{"pool of own installation", ofInstallation, "GET", "/api/v1/pools/" + mine, nil, 200},
		{"pool of another installation", ofInstallation, "GET", "/api/v1/pools/" + other.ID, nil, 404},
		{"an operator pauses", ofInstallation, "PUT", "/api/v1/pools/" + mine + "/pause", map[string]any{}, 200},
		{"an operator does not change", ofInstallation, "PATCH", "/api/v1/pools/" + mine, map[string]any{"max": 2}, 403},
		{"a viewer sees all", fleetViewer, "GET", "/api/v1/pools/" + other.ID, nil, 200},
		{"a viewer does not pause", fleetViewer, "PUT", "/api/v1/pools/" + mine + "/pause", map[string]any{}, 403},
		{"without a grant", nobody, "GET", "/api/v1/pools", nil, 403},
		{"without a grant, whether it is there or not", nobody, "GET", "/api/v1/pools/" + mine, nil, 403},
		{"without a grant, whether it is there or not", nobody, "GET", "/api/v1/pools/pool_none", nil, 403},
		{"a stranger", "", "GET", "/api/v1/pools", nil, 401},
		{"a bad token", "zoo_bad", "GET", "/api/v1/pools", nil, 401},
	} {
		if got := r.call(c.token, c.method, c.path, c.body); got.status != c.status {
			t.Errorf("%s: %s %s: got %d, want %d: %s", c.name, c.method, c.path, got.status, c.status, got.body)
		}
	}
	for token, want := range map[string]int{ofPool: 1, ofInstallation: 1, fleetViewer: 2} {
		if page := into[api.Page[api.Pool]](r.call(token, "GET", "/api/v1/pools", nil).want(http.StatusOK)); len(page.Items) != want {
			t.Errorf("sees %d pools, want %d", len(page.Items), want)
		}
	}
	_ = in
}

func TestATokenCanDoNoMoreThanItsOwnerAndItsScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.user("olga", over(auth.Viewer))
	// A token that claims more than its owner has, as after its owner lost a role.
	owner.Grants = []store.Grant{over(auth.Admin)}
	grown := r.tokenOf(owner, "*")
	r.call(grown, "GET", "/api/v1/pools", nil).want(200)
	r.call(grown, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": 2}).want(403)

	admin := r.user("ada", over(auth.Admin))
	read := r.tokenOf(admin, "pools:read")
	r.call(read, "GET", "/api/v1/pools", nil).want(200)
	r.call(read, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": 2}).want(403)
	other := r.tokenOf(admin, "jobs:write")
	r.call(other, "GET", "/api/v1/pools", nil).want(403)
	none := r.tokenOf(admin)
	r.call(none, "GET", "/api/v1/pools", nil).want(403)

	// A user who is disabled takes their tokens along.
	write := r.tokenOf(admin, "pools:write")
	r.call(write, "GET", "/api/v1/pools", nil).want(200)
	admin.Disabled, admin.Grants = true, []store.Grant{over(auth.Admin)}
	r.user("root", over(auth.Platform))
	if err := r.store.UpdateUser(context.Background(), admin); err != nil {
		t.Fatal(err)
	}
	r.call(write, "GET", "/api/v1/pools", nil).want(401)
}
