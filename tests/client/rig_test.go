// Package client holds the Go client to the API that it is for, and to what networks do to it.
package client_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// fleet is a controller's loops as far as pools need them.
type fleet struct {
	api.Fleet

	bus events.Bus
}

func (f *fleet) Look()               {}
func (f *fleet) Events() *events.Bus { return &f.bus }

// rig is the real API, with a client of an admin.
type rig struct {
	*client.Client

	store  *store.Store
	seed   storetest.Fleet
	token  string
	url    string
	before func(http.ResponseWriter, *http.Request) bool // answers itself when it returns true
	mu     sync.Mutex
	seen   []*http.Request
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{store: storetest.Open(t)}
	r.seed = storetest.Seed(t, r.store)
	s := api.New(api.Options{
		Store: r.store, Fleet: &fleet{}, SignIn: signin.New(signin.Options{Store: r.store}), Version: "test", Logger: slog.New(slog.DiscardHandler),
	})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req)
		before := r.before
		r.mu.Unlock()
		if before != nil && before(w, req) {
			return
		}
		s.Handler().ServeHTTP(w, req)
	}))
	t.Cleanup(ts.Close)
	r.url, r.token = ts.URL, r.as(t, "ada", auth.Admin)
	r.Client = r.client(t, client.Options{Token: r.token})
	return r
}

func (r *rig) client(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	o.Server = r.url
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) as(t *testing.T, name string, role auth.Role) string {
	t.Helper()
	ctx := context.Background()
	grants := []store.Grant{{Role: string(role), ScopeKind: store.ScopeFleet}}
	u, err := r.store.CreateUser(ctx, store.User{Name: name, Source: "local", Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	token := auth.NewToken(auth.PrefixAPI)
	if _, err := r.store.CreateAPIToken(ctx, store.APIToken{Name: name, Hash: auth.HashToken(token), UserID: u.ID, Scopes: []string{"*"}, Grants: grants}); err != nil {
		t.Fatal(err)
	}
	return token
}

// interfere answers requests itself where f does.
func (r *rig) interfere(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.seen = f, nil
}

func (r *rig) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}
