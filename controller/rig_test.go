package controller

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// clock runs with the real one, ahead of it by what the test has skipped.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// rig is a whole fleet without containers: a store, a controller with its HTTP handler, a simulated GitHub, and hosts
// with real agents whose workloads are goroutines. Its nets are an hour apart, so that what an event missed is missed.
type rig struct {
	t        *testing.T
	gh       *simgithub.Server
	st       *store.Store
	clock    *clock
	log      *logBuffer
	http     *http.Client // of the GitHub clients and of the runners
	web      *httptest.Server
	front    atomic.Pointer[http.Handler] // what web serves; nil while the controller is down
	set      Settings
	still    bool
	machines *Machines
	mint     *github.Governor
	dir      string // of the hosts' state files

	mu    sync.Mutex
	ctl   *Controller
	stop  func()
	hosts []*testHost
}

// rigOptions change a rig before it starts.
type rigOptions struct {
	settings func(*Settings)
	latency  time.Duration // of GitHub's answers
	machines *Machines     // that are rented
	still    bool          // the controller's loops do not run: it only takes in what it is told
}

// newRig starts a GitHub and a controller. Nothing else is there yet.
func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{}, log: &logBuffer{}, http: github.NewHTTPClient(), set: DefaultSettings(), dir: t.TempDir()}
	r.set.Tick, r.set.PollFallback, r.set.PollInterval, r.set.JobRecheck = time.Hour, false, time.Hour, time.Hour
	r.still, r.machines = o.still, o.machines
	r.set.HeartbeatInterval = 100 * time.Millisecond
	if o.settings != nil {
		o.settings(&r.set)
	}
	var err error
	if r.gh, err = simgithub.New(simgithub.Options{Latency: o.latency, PollHold: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	r.mint = github.NewGovernor(github.MintsPerMinute, r.clock.now)
	r.st = storetest.OpenWith(t, store.Options{Now: r.clock.now, Logger: r.logger()})
	r.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := r.front.Load()
		if h == nil {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		(*h).ServeHTTP(w, q)
	}))
	r.startController()
	t.Cleanup(r.close)
	return r
}

// fleet is a rig with one organisation, one pool of the label "zoomies" and one host, whose webhooks arrive.
func fleet(t *testing.T, o rigOptions, change func(*store.Pool)) (*rig, store.Pool) {
	t.Helper()
	r := newRig(t, o)
	in := r.install("acme", "acme/widgets")
	p := r.pool(in, func(p *store.Pool) {
		if change != nil {
			change(p)
		}
	})
	r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
	r.host("host-1", 10)
	return r, p
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// startController starts a controller over the rig's store, for the first time or again.
func (r *rig) startController() {
	r.t.Helper()
	c, err := New(r.t.Context(), Options{
		Store: r.st, Settings: r.set, Version: "test", Machines: r.machines, Now: r.clock.now, Logger: r.logger(), Holder: store.Holder{ID: store.NewID("hld_"), Host: "test"},
		GitHub: func(in store.Installation) (github.API, error) {
			return github.NewClient(github.Config{
				BaseURL: in.BaseURL, AppID: in.AppID, InstallationID: in.InstallationID, Account: in.Account,
				PrivateKey: in.PrivateKey, HTTP: r.http, Now: r.clock.now, Mint: r.mint,
			})
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.st.AcquireLease(r.t.Context(), c.holder, LeaseTTL, false); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if r.still {
		done <- nil
	} else {
		go func() { done <- c.Run(ctx) }()
	}
	h := c.Handler()
	r.front.Store(&h)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctl = c
	r.stop = func() {
		r.front.Store(nil)
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the controller ended: %v", err)
		}
	}
}

// stopController ends the controller; everything else goes on.
func (r *rig) stopController() {
	r.mu.Lock()
	stop := r.stop
	r.ctl, r.stop = nil, nil
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// c is the controller that runs now, or nil.
func (r *rig) c() *Controller {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctl
}

func (r *rig) close() {
	for _, h := range r.hosts {
		h.stop()
		h.engine.close()
	}
	r.stopController()
	r.web.Close()
	if err := r.gh.Close(); err != nil {
		r.t.Error(err)
	}
	r.http.CloseIdleConnections()
	r.http.Transport.(*http.Transport).CloseIdleConnections()
	if r.t.Failed() {
		r.t.Log(r.log.String())
	}
}

// install adds an installation with its repositories.
func (r *rig) install(account string, repositories ...string) store.Installation {
	r.t.Helper()
	app := r.gh.App()
	number := r.gh.AddInstallation(account, "Organization")
	for _, repo := range repositories {
		r.gh.AddRepository(number, repo)
	}
	in, err := r.st.CreateInstallation(r.t.Context(), store.Installation{
		Name: account, BaseURL: r.gh.URL(), AppID: app.ID, InstallationID: number, Account: account, AccountType: "Organization",
		PrivateKey: secrets.New(app.PrivateKeyPEM), WebhookSecret: secrets.Of(app.WebhookSecret),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return in
}

// pool adds a pool, which change may change before it is written.
func (r *rig) pool(in store.Installation, change func(*store.Pool)) store.Pool {
	r.t.Helper()
	p := store.Pool{
		Name: in.Account, InstallationID: in.ID, Labels: []string{"zoomies"}, Backend: "podman", Image: "localhost/runner:test",
		Max: 10, Enabled: true, Ephemeral: true, IdleTimeout: time.Minute,
	}
	if change != nil {
		change(&p)
	}
	p, err := r.st.CreatePool(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// logBuffer keeps the log for a failing test, and for those that look for secrets in it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
