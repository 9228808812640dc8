package signin_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

const password = "correct horse"

// hashed is the one hash of all the tests' users: a hash takes long on purpose.
var hashed = sync.OnceValue(func() string { return auth.HashPassword(password) })

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type rig struct {
	*signin.Service
	t     *testing.T
	store *store.Store
	clock *clock
	log   *bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{t: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}, log: &bytes.Buffer{}}
	r.store = storetest.OpenWith(t, store.Options{Now: r.clock.now})
	r.Service = signin.New(signin.Options{Store: r.store, Now: r.clock.now, Logger: slog.New(slog.NewTextHandler(r.log, nil))})
	return r
}

func (r *rig) user(name string) store.User {
	r.t.Helper()
	u, err := r.store.CreateUser(r.t.Context(), store.User{
		Name: name, Source: "local", PasswordHash: hashed(), Grants: []store.Grant{{Role: "platform", ScopeKind: store.ScopeFleet}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

// signIn signs in and begins the session.
func (r *rig) signIn(name, password, address string) (signin.SignedIn, error) {
	r.t.Helper()
	x, err := r.SignIn(r.t.Context(), name, password, address, "a browser")
	if err == nil {
		err = r.Begin(r.t.Context(), &x)
	}
	return x, err
}

func TestASessionEndsWhenUnusedAndAtItsLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("ada")
	x, err := r.signIn("ADA", password, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	began := r.clock.now()
	if p, err := r.Session(t.Context(), x.Cookie); err != nil || p.Name != "ada" || p.Via != x.Session.ID || !p.Can(auth.Platform, auth.AreaSettings, true, auth.Target{}) {
		t.Fatalf("principal %+v, %v", p, err)
	}
	// Used every 20 hours it lives on, for 30 days and no longer.
	for r.clock.now().Sub(began) < signin.SessionMax-20*time.Hour {
		r.clock.step(20 * time.Hour)
		if _, err := r.Session(t.Context(), x.Cookie); err != nil {
			t.Fatalf("after %s: %v", r.clock.now().Sub(began), err)
		}
	}
	r.clock.step(signin.SessionMax - r.clock.now().Sub(began))
	if _, err := r.Session(t.Context(), x.Cookie); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("after 30 days: %v", err)
	}

	x, err = r.signIn("ada", password, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	r.clock.step(signin.SessionIdle)
	if _, err := r.Session(t.Context(), x.Cookie); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("after a day of nothing: %v", err)
	}
	if _, err := r.Session(t.Context(), x.Cookie+"x"); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("another cookie: %v", err)
	}
}

func TestADisabledUserIsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("root")
	ada := r.user("ada")
	token := auth.NewToken(auth.PrefixAPI)
	if _, err := r.store.CreateAPIToken(t.Context(), store.APIToken{Name: "t", Hash: auth.HashToken(token), UserID: ada.ID, Scopes: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	x, err := r.signIn("ada", password, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	proved, err := r.SignIn(t.Context(), "ada", password, "192.0.2.1", "")
	if err != nil {
		t.Fatal(err)
	}
	ada.Disabled = true
	if err := r.store.UpdateUser(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Session(t.Context(), x.Cookie); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("a session: %v", err)
	}
	if _, err := r.Token(t.Context(), token); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("a token: %v", err)
	}
	if _, err := r.signIn("ada", password, "192.0.2.1"); !errors.Is(err, signin.ErrPassword) {
		t.Errorf("a sign-in: %v", err)
	}
	if err := r.Begin(t.Context(), &proved); !errors.Is(err, signin.ErrPassword) {
		t.Errorf("a session that was proved before: %v", err)
	}
}

func TestAPasswordThatChangedMeanwhileBeginsNoSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada := r.user("ada")
	x, err := r.SignIn(t.Context(), "ada", password, "192.0.2.1", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.SetPassword(t.Context(), ada.ID, ada.PasswordHash, auth.HashPassword("another one"), ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(t.Context(), &x); !errors.Is(err, signin.ErrPassword) {
		t.Errorf("got %v", err)
	}
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada := r.user("ada")
	token := auth.NewToken(auth.PrefixAPI)
	if _, err := r.store.CreateAPIToken(t.Context(), store.APIToken{
		Name: "t", Hash: auth.HashToken(token), UserID: ada.ID, Scopes: []string{"*"}, ExpiresAt: r.clock.now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	r.clock.step(time.Hour - time.Second)
	if _, err := r.Token(t.Context(), token); err != nil {
		t.Error(err)
	}
	r.clock.step(time.Second)
	if _, err := r.Token(t.Context(), token); !errors.Is(err, signin.ErrCredential) {
		t.Errorf("after its end: %v", err)
	}
}

// How long an answer takes must not say whether there is such a user: a password is hashed once, with the same costs, either way.
func TestAsManyHashesForAStrangersName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("ada")
	tailnet, err := r.store.CreateUser(t.Context(), store.User{Name: "tess", Source: "tailnet", Subject: "tess@example"})
	if err != nil {
		t.Fatal(err)
	}
	var checked []string
	r.CountChecks(func(hash string) { checked = append(checked, hash) })
	for i, name := range []string{"ada", "nobody", tailnet.Name} {
		checked = nil
		if _, err := r.signIn(name, "wrong password", fmt.Sprintf("192.0.2.%d", i)); !errors.Is(err, signin.ErrPassword) {
			t.Errorf("%s: %v", name, err)
		}
		if len(checked) != 1 || auth.NeedsRehash(checked[0]) {
			t.Errorf("%s: compared with %q", name, checked)
		}
	}
	checked = nil
	for _, name := range []string{"ada", "nobody"} {
		if _, err := r.signIn(name, strings.Repeat("x", signin.MaxPassword+1), "192.0.2.9"); !errors.Is(err, signin.ErrPassword) {
			t.Errorf("a long password: %v", err)
		}
	}
	if len(checked) != 0 {
		t.Errorf("a password that is too long was hashed")
	}
}

func TestAFailureIsLoggedWithoutWhatWasTyped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 12 {
		_, _ = r.signIn("hunter2-typed-as-name", "hunter2-typed-as-password", "192.0.2.1")
	}
	if log := r.log.String(); strings.Contains(log, "hunter2") || !strings.Contains(log, "192.0.2.1") || !strings.Contains(log, "refused for a while") {
		t.Errorf("log:\n%s", log)
	}
}

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, password string
		ok             bool
	}{
		{"ada", "ninechars", false}, {"ada", "ten chars!", true}, {"ada", "äöüäöüäöüä", true}, {"ada", strings.Repeat("x", 257), false},
		{"administrator", "administrator1", false}, {"administrator", "Administrator", false}, {"ada", "ada is not my password", true},
	} {
		if err := signin.CheckPassword(c.name, c.password); (err == nil) != c.ok {
			t.Errorf("%s, %.20q: %v", c.name, c.password, err)
		}
	}
}
