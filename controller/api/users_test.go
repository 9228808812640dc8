package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func TestAUserFromTheirMakingToTheirEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.as("root", over(auth.Platform))
	made := into[api.User](r.call(root, "POST", "/api/v1/users", map[string]any{
		"name": "bob", "password": password, "grants": []map[string]any{{"role": "operator"}, {"role": "admin", "scope_kind": "pool", "scope_id": r.seed.Pool.ID}},
	}, "Idempotency-Key", "k").want(201))
	if made.Source != "local" || len(made.Grants) != 2 || made.Disabled || made.LastSignInAt != nil {
		t.Errorf("made: %+v", made)
	}
	path := "/api/v1/users/" + made.ID
	bob := r.signIn("bob", password)
	got := r.call(root, "GET", path, nil).want(200)
	if u := into[api.User](got); u.LastSignInAt == nil {
		t.Errorf("after the sign-in: %+v", u)
	}
	tag := got.header.Get("ETag")
	changed := into[api.User](r.call(root, "PATCH", path, map[string]any{"grants": []map[string]any{{"role": "viewer"}}}, "If-Match", tag).want(200))
	if len(changed.Grants) != 1 || changed.Grants[0].Role != "viewer" || changed.Grants[0].ScopeKind != "fleet" {
		t.Errorf("changed: %+v", changed)
	}
	r.call(root, "PATCH", path, map[string]any{"disabled": true}, "If-Match", tag).want(412)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", bob).want(200)

	r.call(root, "PATCH", path, map[string]any{"password": "a better horse"}).want(200)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", bob).want(401)
	bob = r.signIn("bob", "a better horse")
	r.call(root, "PATCH", path, map[string]any{"disabled": true}).want(200)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", bob).want(401)
	r.call("", "POST", "/api/v1/session", map[string]any{"name": "bob", "password": "a better horse"}).want(401)
	r.call(root, "PATCH", path, map[string]any{"disabled": false, "name": "robert"}).want(200)
	bob = r.signIn("robert", "a better horse")
	r.call(root, "DELETE", path+"/sessions", nil).want(204)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", bob).want(401)
	r.call(root, "DELETE", path, nil).want(204)
	r.call(root, "GET", path, nil).want(404)
	r.call(root, "DELETE", path, nil).want(404)

	var did []string
	for _, row := range r.audit() {
		if !strings.HasPrefix(row.ActorName, "root/") && row.Action != "sign-in" || row.RequestID == "" {
			t.Errorf("audit row %+v", row)
		}
		if all := row.Before + row.After; strings.Contains(all, "horse") || strings.Contains(all, "argon2") || strings.Contains(all, "0001-01-01") {
			t.Errorf("a password, or a time that is none, is in the audit log: %+v", row)
		}
		did = append(did, row.Action)
	}
	if want := "delete-user end-sessions sign-in update-user update-user sign-in update-user update-user sign-in create-user"; strings.Join(did, " ") != want {
		t.Errorf("audit log: %v", did)
	}
	if strings.Contains(r.log.String(), "horse") {
		t.Error("a password is in the log")
	}
}

func TestABadUserChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.as("root", over(auth.Platform))
	other := r.person("bob")
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		says   string
	}{
		"bad name":           {map[string]any{"name": "Bob Smith", "password": password}, 422, "name"},
		"taken name":         {map[string]any{"name": "bob", "password": password}, 409, "another user with the name bob"},
		"short password":     {map[string]any{"name": "eve", "password": "short"}, 422, "password"},
		"no password":        {map[string]any{"name": "eve"}, 422, "password"},
		"unknown role":       {map[string]any{"name": "eve", "password": password, "grants": []map[string]any{{"role": "king"}}}, 422, "role"},
		"narrow platform":    {map[string]any{"name": "eve", "password": password, "grants": []map[string]any{{"role": "platform", "scope_kind": "pool", "scope_id": r.seed.Pool.ID}}}, 422, "whole fleet"},
		"no such pool":       {map[string]any{"name": "eve", "password": password, "grants": []map[string]any{{"role": "admin", "scope_kind": "pool", "scope_id": "pool_none"}}}, 422, "no pool pool_none"},
		"fleet with an ID":   {map[string]any{"name": "eve", "password": password, "grants": []map[string]any{{"role": "admin", "scope_id": "pool_none"}}}, 422, "names no object"},
		"twice the scope":    {map[string]any{"name": "eve", "password": password, "grants": []map[string]any{{"role": "admin"}, {"role": "viewer"}}}, 422, "two grants"},
		"a hash as password": {map[string]any{"name": "eve", "password_hash": "$argon2id$"}, 422, "password_hash"},
	} {
		if a := r.call(root, "POST", "/api/v1/users", c.body); a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
	}
	r.call(root, "PATCH", "/api/v1/users/"+other.ID, map[string]any{"name": "root"}).want(409)
	if rows := r.audit(); len(rows) != 0 {
		t.Errorf("failed requests left audit rows: %+v", rows)
	}
}

func TestTheLastPlatformUserStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.user("root", over(auth.Platform))
	token, path := r.tokenOf(root, "*"), "/api/v1/users/"+root.ID
	for _, body := range []map[string]any{{"disabled": true}, {"grants": []any{}}, {"grants": []map[string]any{{"role": "admin"}}}} {
		if a := r.call(token, "PATCH", path, body).want(409); !strings.Contains(string(a.body), "last user") {
			t.Errorf("%v: %s", body, a.body)
		}
	}
	r.call(token, "DELETE", path, nil).want(409)
	second := r.user("second", over(auth.Platform))
	r.call(r.tokenOf(second, "*"), "DELETE", path, nil).want(204)
	r.call(token, "GET", "/api/v1/session", nil).want(401)
}

// rights is one request, who makes it, and what comes of it.
type rights struct {
	name, token, method, path string
	body                      any
	status                    int
}

func (r *rig) check(cases []rights) {
	r.t.Helper()
	for _, c := range cases {
		if got := r.call(c.token, c.method, c.path, c.body); got.status != c.status {
			r.t.Errorf("%s: %s %s: got %d, want %d: %s", c.name, c.method, c.path, got.status, c.status, got.body)
		}
	}
}

func TestNobodyGivesOrChangesMoreThanTheyHave(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, otherPool := r.neighbour()
	mine, pool := r.seed.Installation.ID, r.seed.Pool.ID
	root := r.user("root", over(auth.Platform))
	adminUser := r.user("ada", over(auth.Admin))
	admin := r.tokenOf(adminUser, "*")
	narrow := r.as("ivo", overInstallation(auth.Admin, mine))
	mixed := r.as("mia", over(auth.Viewer), overPool(auth.Admin, pool))
	operator := r.as("olga", over(auth.Operator))
	inside := r.user("ines", overPool(auth.Operator, pool))
	outside := r.user("otto", overPool(auth.Operator, otherPool.ID))
	both := r.user("bea", overPool(auth.Operator, pool), overPool(auth.Viewer, otherPool.ID))
	none := r.user("nemo")
	user := func(name string, grants ...map[string]any) map[string]any {
		return map[string]any{"name": name, "password": password, "grants": append([]map[string]any{}, grants...)}
	}
	grant := func(role, kind, id string) map[string]any {
		return map[string]any{"role": role, "scope_kind": kind, "scope_id": id}
	}
	fleet := func(role string) map[string]any { return map[string]any{"role": role} }
	u := func(x store.User) string { return "/api/v1/users/" + x.ID }
	r.check([]rights{
		{"an admin gives admin", admin, "POST", "/api/v1/users", user("a1", fleet("admin")), 201},
		{"an admin does not give platform", admin, "POST", "/api/v1/users", user("a2", fleet("platform")), 403},
		{"an admin does not raise themselves", admin, "PATCH", u(adminUser), map[string]any{"grants": []any{fleet("platform")}}, 403},
		{"an admin does not take over a platform user", admin, "PATCH", u(root), map[string]any{"password": "a better horse"}, 403},
		{"nor end their sessions", admin, "DELETE", u(root) + "/sessions", nil, 403},
		{"nor delete them", admin, "DELETE", u(root), nil, 403},
		{"but sees them", admin, "GET", u(root), nil, 200},
		{"one's own password needs the old one", admin, "PATCH", u(adminUser), map[string]any{"password": "a better horse"}, 422},

		{"an operator sees no user", operator, "GET", "/api/v1/users", nil, 403},
		{"an operator makes none", operator, "POST", "/api/v1/users", user("o1"), 403},
		{"an operator sees no sessions of others", operator, "GET", u(inside) + "/sessions", nil, 404},

		{"narrowed: inside", narrow, "GET", u(inside), nil, 200},
		{"narrowed: outside is not there", narrow, "GET", u(outside), nil, 404},
		{"narrowed: partly outside is not there", narrow, "GET", u(both), nil, 404},
		{"narrowed: without grants is not there", narrow, "GET", u(none), nil, 404},
		{"narrowed: the fleet's users are not there", narrow, "PATCH", u(adminUser), map[string]any{"disabled": true}, 404},
		{"narrowed: not changed", narrow, "DELETE", u(outside), nil, 404},
		{"narrowed: sessions outside", narrow, "DELETE", u(outside) + "/sessions", nil, 404},
		{"narrowed: sessions inside", narrow, "GET", u(inside) + "/sessions", nil, 200},
		{"narrowed: gives over its installation", narrow, "POST", "/api/v1/users", user("n1", grant("admin", "installation", mine)), 201},
		{"narrowed: gives over a pool of it", narrow, "POST", "/api/v1/users", user("n2", grant("viewer", "pool", pool)), 201},
		{"narrowed: not over another's pool", narrow, "POST", "/api/v1/users", user("n3", grant("viewer", "pool", otherPool.ID)), 403},
		{"narrowed: not over another installation", narrow, "POST", "/api/v1/users", user("n3", grant("viewer", "installation", in.ID)), 403},
		{"narrowed: not over the fleet", narrow, "POST", "/api/v1/users", user("n3", fleet("viewer")), 403},
		{"narrowed: nobody without a grant", narrow, "POST", "/api/v1/users", user("n3"), 403},
		{"narrowed: what is not there is not told apart", narrow, "POST", "/api/v1/users", user("n3", grant("viewer", "pool", "pool_none")), 403},
		{"narrowed: no grant outside is added", narrow, "PATCH", u(inside), map[string]any{"grants": []any{grant("operator", "pool", pool), grant("viewer", "pool", otherPool.ID)}}, 403},
		{"narrowed: a user inside is changed", narrow, "PATCH", u(inside), map[string]any{"grants": []any{grant("viewer", "pool", pool)}}, 200},
		{"narrowed: does not raise themselves", narrow, "GET", "/api/v1/audit", nil, 403},

		{"a viewer of the fleet who administers one pool does not let others see the fleet", mixed, "POST", "/api/v1/users", user("m1", fleet("viewer")), 403},
		{"but gives over the pool", mixed, "POST", "/api/v1/users", user("m2", grant("operator", "pool", pool)), 201},
		{"and sees no fleet admin", mixed, "GET", u(adminUser), nil, 404},
	})
	names := func(token string) string {
		var out []string
		for _, x := range into[api.Page[api.User]](r.call(token, "GET", "/api/v1/users", nil).want(http.StatusOK)).Items {
			out = append(out, x.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(narrow); got != "ines ivo m2 n1 n2" {
		t.Errorf("the narrowed admin sees %s", got)
	}
	if got := names(admin); !strings.Contains(got, "root") || !strings.Contains(got, "nemo") {
		t.Errorf("the admin sees %s", got)
	}
	if list := into[api.Page[api.User]](r.call(admin, "GET", "/api/v1/users?name=nemo", nil).want(200)); len(list.Items) != 1 {
		t.Errorf("by name: %+v", list)
	}
}

func TestAUserOfAnotherSourceHasNoPasswordHere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.as("root", over(auth.Platform))
	tess, err := r.store.CreateUser(context.Background(), store.User{Name: "tess", Source: "tailnet", Subject: "tess@example"})
	if err != nil {
		t.Fatal(err)
	}
	r.call(root, "PATCH", "/api/v1/users/"+tess.ID, map[string]any{"password": "a better horse"}).want(409)
	r.call(r.tokenOf(tess, "*"), "PUT", "/api/v1/session/password", map[string]any{"current": "x", "new": "a better horse"}).want(409)
}
