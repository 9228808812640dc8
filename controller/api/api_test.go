package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// fleet counts how often the loops were woken, and answers as a test says.
type fleet struct {
	mu    sync.Mutex
	looks int
	bus   events.Bus

	applied  int
	applyErr error
	store    *store.Store
	health   map[string]string // by host; healthy otherwise
	explain  func(jobID string) scheduler.Explanation
	serving  []scheduler.HostVerdict
	github   error    // of what is asked of GitHub
	asked    []string // of GitHub
	hub      *relay.Hub
	watch    error
	problems *problems.Set
	started  time.Time
}

func newFleet(now func() time.Time) *fleet {
	f := &fleet{started: now()}
	f.problems = problems.NewSet(now, func(problems.Problem, bool) { f.bus.Publish(events.ProblemsChanged, "") })
	return f
}

func (f *fleet) Look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
}

func (f *fleet) ApplySettings(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied++
	return f.applyErr
}

func (f *fleet) Events() *events.Bus { return &f.bus }

func (f *fleet) HostHealth(h store.Host) string {
	if word := f.health[h.ID]; word != "" {
		return word
	}
	return "healthy"
}

func (f *fleet) Explain(_ context.Context, id string) (scheduler.Explanation, error) {
	return f.explain(id), nil
}

func (f *fleet) StopRunner(ctx context.Context, id, why string) error {
	_, _, err := f.store.TransitionRunner(ctx, id, store.RunnerDraining, store.Change{Message: why})
	return err
}

func (f *fleet) Prewarm(context.Context, store.Pool) ([]string, []scheduler.HostVerdict, error) {
	return []string{"localhost/runner:test"}, f.serving, nil
}

func (f *fleet) askGitHub(what string, j store.Job) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what+" "+j.ID)
	return f.github
}

func (f *fleet) RerunJob(_ context.Context, j store.Job) error  { return f.askGitHub("rerun", j) }
func (f *fleet) CancelRun(_ context.Context, j store.Job) error { return f.askGitHub("cancel", j) }

func (f *fleet) WatchLogs(_ context.Context, r store.Runner) (*relay.Viewer, error) {
	if f.watch != nil {
		return nil, f.watch
	}
	v, first, err := f.hub.Join(r.ID, r.HostID)
	if first {
		f.hub.Asked(f.hub.Unasked(r.ID), "stream")
	}
	return v, err
}
func (f *fleet) Problems() []problems.Problem { return f.problems.List() }

func (f *fleet) Started() time.Time { return f.started }

// rig is an API over a store with an installation, and users of every kind.
type rig struct {
	t      *testing.T
	store  *store.Store
	fleet  *fleet
	server *api.Server
	url    string
	seed   storetest.Fleet
	log    *bytes.Buffer
	now    *clock
}

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

type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

func newRig(t *testing.T) *rig { return newRigWith(t, nil) }

// newRigWith lets a test change the options.
func newRigWith(t *testing.T, edit func(*api.Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: &bytes.Buffer{}, now: &clock{t: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}}
	r.fleet = newFleet(r.now.now)
	r.store = storetest.OpenWith(t, store.Options{Now: r.now.now})
	r.seed = storetest.Seed(t, r.store)
	r.fleet.store, r.fleet.hub = r.store, relay.New(nil)
	log := slog.New(slog.NewTextHandler(&syncWriter{w: r.log}, nil))
	o := api.Options{
		Store: r.store, Fleet: r.fleet, SignIn: signin.New(signin.Options{Store: r.store, Now: r.now.now, Logger: log}), Version: "test", Now: r.now.now,
		Logger: log,
	}
	if edit != nil {
		edit(&o)
	}
	r.server = api.New(o)
	ts := httptest.NewServer(r.server.Handler())
	t.Cleanup(ts.Close)
	r.url = ts.URL
	return r
}

// as makes a user with grants and returns an API token of theirs that can do all they can.
func (r *rig) as(name string, grants ...store.Grant) string {
	r.t.Helper()
	return r.tokenOf(r.user(name, grants...), "*")
}

func (r *rig) user(name string, grants ...store.Grant) store.User {
	r.t.Helper()
	u, err := r.store.CreateUser(context.Background(), store.User{Name: name, Source: "local", Grants: grants})
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

func (r *rig) tokenOf(u store.User, scopes ...string) string {
	r.t.Helper()
	token := auth.NewToken(auth.PrefixAPI)
	if _, err := r.store.CreateAPIToken(context.Background(), store.APIToken{
		Name: store.NewID(u.Name + "-"), Hash: auth.HashToken(token), UserID: u.ID, Scopes: scopes, Grants: u.Grants,
	}); err != nil {
		r.t.Fatal(err)
	}
	return token
}

// over is a grant over the whole fleet.
func over(role auth.Role) store.Grant {
	return store.Grant{Role: string(role), ScopeKind: store.ScopeFleet}
}

func overPool(role auth.Role, id string) store.Grant {
	return store.Grant{Role: string(role), ScopeKind: store.ScopePool, ScopeID: id}
}

func overInstallation(role auth.Role, id string) store.Grant {
	return store.Grant{Role: string(role), ScopeKind: store.ScopeInstallation, ScopeID: id}
}

// answer is what came back.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// call makes a request. Body is JSON, or nil for none; headers are pairs.
func (r *rig) call(token, method, path string, body any, headers ...string) answer {
	r.t.Helper()
	var rd io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		rd = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		rd = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, r.url+path, rd)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{r.t, resp.StatusCode, resp.Header, raw}
}

// want fails the test unless the status is this.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("got status %d, want %d: %s", a.status, status, a.body)
	}
	if status >= 400 && a.header.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("an error of type %q: %s", a.header.Get("Content-Type"), a.body)
	}
	return a
}

// into decodes the body.
func into[T any](a answer) T {
	a.t.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// audit returns the audit log, newest first.
func (r *rig) audit() []store.AuditRow {
	r.t.Helper()
	rows, err := r.store.AuditRows(context.Background(), store.AuditFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}
