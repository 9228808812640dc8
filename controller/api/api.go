// Package api is the controller's REST API: it reads requests, asks whether the caller may, hands the work to the store or to the
// fleet, and renders what came of it. It must never decide anything about runners, and never answer with a secret that was stored.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Fleet is what the API asks of the controller's loops.
type Fleet interface {
	// Look wakes the loops: rows that they read have changed.
	Look()
	// Events is where row changes are announced.
	Events() *events.Bus
	// ApplySettings has the loops take over those settings that count at once. They are written already.
	ApplySettings(ctx context.Context) error
	// HostHealth says how a host is: healthy, unhealthy, lost or joining.
	HostHealth(h store.Host) string
	// Explain says why a job waits, going by the fleet as it is now.
	Explain(ctx context.Context, jobID string) (scheduler.Explanation, error)
	// StopRunner drains a runner. store.ErrTransition says that it has ended already.
	StopRunner(ctx context.Context, id, why string) error
	// Prewarm has the hosts that can serve a pool fetch its images; every host's verdict says whether it was asked.
	Prewarm(ctx context.Context, p store.Pool) (images []string, hosts []scheduler.HostVerdict, err error)
	// RerunJob and CancelRun ask GitHub; their errors are those of package github.
	RerunJob(ctx context.Context, j store.Job) error
	CancelRun(ctx context.Context, j store.Job) error
	// WatchLogs follows a runner's output. relay.ErrFull when too many do. The caller closes the viewer.
	WatchLogs(ctx context.Context, r store.Runner) (*relay.Viewer, error)
	// Problems are what is wrong now.
	Problems() []problems.Problem
	// Started is when the controller was started.
	Started() time.Time
}

// Options make a server.
type Options struct {
	Store   *store.Store
	Fleet   Fleet
	SignIn  *signin.Service
	Version string
	Now     func() time.Time
	Logger  *slog.Logger
	// Secure says that browsers reach the server over TLS, so that cookies are kept from plain HTTP.
	Secure bool
	Limits Limits
	// PublicMetrics shows the metrics to whoever asks.
	PublicMetrics bool
	// Running are the settings with which the controller started; nil is the defaults.
	Running *config.Config
	// LoadSettings merges the settings' layers as a start would, over these rows of the database; nil knows no file and no environment.
	LoadSettings func(database map[string]string) (*config.Config, error)
	// PublicURL is where browsers and GitHub reach the server; empty when nobody said.
	PublicURL string
	// AgentURL is where agents reach the server, and CAPin what they know its authority by; empty when nobody can say, or when any machine
	// knows the authority.
	AgentURL, CAPin string
	// TrustedProxies are those from which X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Gateways are the tunnel's part in connections to providers; nil is a controller without a tunnel.
	Gateways Gateways
	// GitHub asks GitHub; nil is a client with timeouts.
	GitHub *http.Client
	// Streams bound the streams of events.
	Streams Streams
	// Rest serves the routes outside the API: health, metrics, webhooks and the agents.
	Rest http.Handler
}

// Server is the API over one store.
type Server struct {
	store   *store.Store
	fleet   Fleet
	signin  *signin.Service
	version string
	now     func() time.Time
	log     *slog.Logger
	secure  bool
	limits  Limits
	rest    http.Handler
	public  string // PublicURL without a slash at its end
	apps    *github.Apps
	flows   *flows

	agentURL, caPin string
	proxies         []netip.Prefix
	gateways        Gateways

	publicMetrics bool
	running       *config.Config
	loadSettings  func(map[string]string) (*config.Config, error)
	settingsMu    sync.Mutex // a setting is judged together with the others: one change at a time

	api    huma.API
	router *chi.Mux
	served map[string]bool // operations that have a handler
	busy   *inFlight
	hub    *hub
	routed http.Handler
}

// New makes the server and registers every route of the guard table.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rest == nil {
		o.Rest = http.NotFoundHandler()
	}
	if o.Running == nil {
		o.Running = config.Default()
	}
	if o.LoadSettings == nil {
		o.LoadSettings = func(rows map[string]string) (*config.Config, error) {
			return config.Load(config.LoadOptions{Database: rows})
		}
	}
	s := &Server{
		store: o.Store, fleet: o.Fleet, signin: o.SignIn, version: o.Version, now: o.Now, log: o.Logger, secure: o.Secure,
		limits: o.Limits.orDefault(), rest: o.Rest, router: chi.NewMux(), served: map[string]bool{}, busy: newInFlight(),
		agentURL: o.AgentURL, caPin: o.CAPin, proxies: o.TrustedProxies, gateways: o.Gateways, publicMetrics: o.PublicMetrics, running: o.Running, loadSettings: o.LoadSettings,
		public: strings.TrimRight(o.PublicURL, "/"), apps: github.NewApps(o.GitHub, o.Now), flows: newFlows(o.Now),
	}
	s.hub = newHub(s, o.Streams)
	s.api = humachi.New(s.router, openAPIConfig(o.Version))
	s.api.UseMiddleware(s.guard)
	for _, add := range []func(*Server){
		addPools, addSetup, addSession, addUsers, addSessions, addTokens, addJoinTokens, addSettings, addAudit, addInstallations, addGitHubApps, addManifest,
		addDeliveries, addPrewarm, addHosts, addQueue, addRunners, addJobs, addProblems, addStatus, addEvents,
		addProviderSetups,
	} {
		add(s)
	}
	s.serveRest()
	s.routed = s.wrap(s.router)
	return s
}

// Close ends the streams that are open, and refuses new ones. Everything else is still served.
func (s *Server) Close() { s.hub.close() }

// Handler serves everything to the network.
func (s *Server) Handler() http.Handler { return s.routed }

// LocalHandler serves the same to whoever may open the local socket, who is the machine's owner and needs no sign-in.
func (s *Server) LocalHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.routed.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, auth.Local())))
	})
}

// serveRest passes on the routes of the guard table that are not the API's own.
func (s *Server) serveRest() {
	for _, id := range []string{"health", "ready", "github-webhook", "agent-api"} {
		g := mustFind(id)
		s.served[id] = true
		if g.Method == "" {
			s.router.Handle(g.Path, s.rest)
			continue
		}
		s.router.Method(g.Method, g.Path, s.rest)
	}
	if g := mustFind("metrics"); s.publicMetrics {
		s.served[g.ID] = true
		s.router.Method(g.Method, g.Path, s.rest)
	} else {
		s.raw(g.ID, s.rest.ServeHTTP)
	}
	s.raw("openapi", s.openAPIJSON)
	s.raw("openapi-yaml", s.openAPIYAML)
	s.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem(http.StatusNotFound, "There is nothing at "+r.URL.Path+".", "See /api/v1/openapi.json for what there is."))
	})
	s.router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem(http.StatusMethodNotAllowed, r.URL.Path+" does not take "+r.Method+".", "See /api/v1/openapi.json for what it takes."))
	})
}

func mustFind(id string) auth.Guard {
	g, ok := auth.Find(id)
	if !ok {
		panic("api: operation " + id + " has no row in the guard table")
	}
	return g
}

// raw registers a handler that writes its answer itself, under the guard of its operation.
func (s *Server) raw(id string, h http.HandlerFunc) {
	g := mustFind(id)
	s.served[id] = true
	s.router.Method(g.Method, g.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, p := s.admit(r.Context(), g, func(name string) string { return chi.URLParam(r, name) })
		if p != nil {
			s.writeProblem(w, r, p)
			return
		}
		h(w, r.WithContext(ctx))
	}))
}

// register adds the typed handler of an operation. Its route, guard and words come from the guard table.
func register[I, O any](s *Server, id string, h func(context.Context, *I) (*O, error)) {
	g := mustFind(id)
	s.served[id] = true
	huma.Register(s.api, s.operation(g), func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, g, err)
		}
		if err := s.audited(ctx, g); err != nil {
			return nil, s.fail(ctx, g, err)
		}
		return out, nil
	})
}
