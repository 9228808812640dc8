package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// The table is the truth: what it has is served, and what is served it has.
func TestRoutesAndGuardsAreTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, g := range auth.Guards {
		if !r.server.Served()[g.ID] {
			t.Errorf("%s (%s %s) is in the guard table and has no handler", g.ID, g.Method, g.Path)
		}
		if g.Access == auth.ByRole && (g.Role == "" || g.Area == "") {
			t.Errorf("%s needs a role and an area", g.ID)
		}
	}
	for _, route := range r.server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if !slices.ContainsFunc(auth.Guards, func(g auth.Guard) bool { return g.Path == path && (g.Method == method || g.Method == "") }) {
			t.Errorf("%s is served and is in no row of the guard table", route)
		}
	}
}

// caller is one column of the matrix.
type caller struct {
	name   string
	token  string
	grants []store.Grant
}

// Every route with every role: those below the one it needs are refused, those at or above it are not; and what a narrowed grant does
// not cover is not there.
func TestEveryRouteWithEveryRole(t *testing.T) {
	t.Parallel()
	for _, g := range auth.Guards {
		if g.Access != auth.ByRole && g.Access != auth.AnyUser {
			continue
		}
		t.Run(g.ID, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, foreign := r.neighbour()
			path := r.pathOf(g)
			if got := r.statusOf("", g, path); got != http.StatusUnauthorized {
				t.Errorf("a stranger: got %d", got)
			}
			for _, c := range r.callers(foreign) {
				got := r.statusOf(c.token, g, path)
				hidden := got == http.StatusNotFound && narrowed(c.grants) && g.Object != auth.Listed && g.Access != auth.AnyUser
				if want := mayCall(g, c.grants); want != (got != http.StatusForbidden && got != http.StatusUnauthorized && !hidden) {
					t.Errorf("%s: got %d, may call it: %v", c.name, got, want)
				}
			}
			wrong := r.tokenOf(r.user("sam", over(auth.Platform)), slices.DeleteFunc(auth.TokenScopes(), func(scope string) bool {
				return scope == "*" || strings.HasPrefix(scope, string(g.Area)+":")
			})...)
			if got := r.statusOf(wrong, g, path); got != http.StatusForbidden {
				t.Errorf("a token without the scope: got %d", got)
			}
			if g.Writes() {
				if got := r.statusOf(r.tokenOf(r.user("rita", over(auth.Platform)), string(g.Area)+":read"), g, path); got != http.StatusForbidden {
					t.Errorf("a token that may only read: got %d", got)
				}
			}
		})
	}
}

func narrowed(grants []store.Grant) bool {
	return len(grants) > 0 && grants[0].ScopeKind != store.ScopeFleet
}

// mayCall is the matrix's own idea of who may: a role over the fleet that is high enough, or any such role for a list.
func mayCall(g auth.Guard, grants []store.Grant) bool {
	if g.Access == auth.AnyUser {
		return true
	}
	for _, x := range grants {
		enough := slices.Index(auth.Roles, auth.Role(x.Role)) >= slices.Index(auth.Roles, g.Role)
		if enough && (x.ScopeKind == store.ScopeFleet || g.Object == auth.Listed || g.Object == auth.InBody) {
			return true
		}
	}
	return false
}

// callers are a user of every role over the fleet, without a grant, and with the highest one over a pool that the path is not about.
func (r *rig) callers(foreign store.Pool) []caller {
	cs := []caller{
		{name: "nobody", grants: nil},
		{name: "admin of another pool", grants: []store.Grant{overPool(auth.Admin, foreign.ID)}},
		{name: "admin of another installation", grants: []store.Grant{overInstallation(auth.Admin, foreign.InstallationID)}},
	}
	for _, role := range auth.Roles {
		cs = append(cs, caller{name: string(role), grants: []store.Grant{over(role)}})
	}
	for i := range cs {
		cs[i].token = r.as(strings.ReplaceAll(cs[i].name, " ", "-"), cs[i].grants...)
	}
	return cs
}

// statusOf makes the request with an empty object and reads no body: a stream has no end.
func (r *rig) statusOf(token string, g auth.Guard, path string) int {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := ""
	if g.Writes() && g.Method != http.MethodDelete {
		body = "{}"
	}
	req, err := http.NewRequestWithContext(ctx, g.Method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// pathOf fills in a path with what is there.
func (r *rig) pathOf(g auth.Guard) string {
	r.t.Helper()
	ctx := context.Background()
	id := "none"
	switch g.Object {
	case auth.APool:
		id = r.seed.Pool.ID
	case auth.AnInstallation:
		id = r.seed.Installation.ID
	case auth.AJob:
		c, err := r.store.UpsertJob(ctx, store.JobUpdate{
			InstallationID: r.seed.Installation.ID, GitHubID: 1, RunID: 2, Repository: "acme/app", State: store.JobQueued, Labels: []string{"zoomies"},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		id = c.Job.ID
	case auth.ARunner:
		run := store.Runner{
			ID: store.NewID("run_"), Name: "zoomies-matrix", PoolID: r.seed.Pool.ID, HostID: r.seed.Host.ID, InstallationID: r.seed.Installation.ID,
			Backend: "podman", State: store.RunnerProvisioning, Ephemeral: true,
		}
		if err := r.store.CreateRunners(ctx, []store.Runner{run}); err != nil {
			r.t.Fatal(err)
		}
		id = run.ID
	default:
	}
	return strings.NewReplacer("{id}", id, "{code}", "pool.blocked", "{key}", "github.poll_interval", "{state}", "none").Replace(g.Path)
}
