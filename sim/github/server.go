package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// restRoot is where the REST API hangs, in the form of GitHub Enterprise Server.
const restRoot = "/api/v3"

// Options configures a Server. The zero value serves on a free loopback port without latency.
type Options struct {
	Seed      int64            // makes ids and delivery order of hooks repeatable; 0 is 1
	Latency   time.Duration    // added to every REST request
	Logger    *slog.Logger     // nil discards
	Now       func() time.Time // nil is time.Now; every decision about time asks it
	Listener  net.Listener     // nil listens on 127.0.0.1:0
	PublicURL string           // base URL that runners reach the server by; empty is the listener's
	Limits    Limits           // zero fields take GitHub's published numbers
	PollHold  time.Duration    // how long a runner's message poll is held; 0 is 50 s, as the real service
	Webhooks  *http.Client     // sends deliveries; nil is a client with GitHub's 10 s limit

	// observe sees every REST answer before it is written; the tests validate there.
	observe func(r *http.Request, status int, h http.Header, body []byte)
}

// Server is the simulated GitHub. All methods may be called from any goroutine.
type Server struct {
	opts     Options
	log      *slog.Logger
	now      func() time.Time
	app      appKeys
	listener net.Listener
	base     string // scheme and host of the listener
	public   string // the same as runners see it
	http     *http.Server
	client   *http.Client

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kick   chan struct{} // wakes the janitor

	mu      sync.Mutex
	rng     *rand.Rand
	nextID  int64
	changed chan struct{} // closed and replaced at every change of state
	world   world
	hooks   hooks
	physics physics
}

// New starts a server. It serves until Close.
func New(o Options) (*Server, error) {
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PollHold <= 0 {
		o.PollHold = 50 * time.Second
	}
	o.Limits = o.Limits.withDefaults()
	key, err := appKey()
	if err != nil {
		return nil, fmt.Errorf("cannot make the App's key: %w", err)
	}
	ln := o.Listener
	if ln == nil {
		if ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("cannot listen for the simulated GitHub: %w", err)
		}
	}
	rng := rand.New(rand.NewPCG(uint64(o.Seed), 0x600d)) //nolint:gosec // repeatable by design, guards nothing
	s := &Server{
		opts: o, log: o.Logger, now: o.Now, listener: ln, client: o.Webhooks,
		base: "http://" + reachable(ln.Addr()), kick: make(chan struct{}, 1),
		rng: rng, nextID: 1000 + rng.Int64N(9000), changed: make(chan struct{}),
	}
	s.public = strings.TrimRight(o.PublicURL, "/")
	if s.public == "" {
		s.public = s.base
	}
	if s.client == nil {
		s.client = &http.Client{
			Timeout:       10 * time.Second, // GitHub's own
			Transport:     &http.Transport{MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.app = appKeys{
		id: s.newID(), key: key.key, pem: key.pem, secret: s.token("", 32), clientID: "Iv23" + s.token("", 16),
		name: appName, slug: appSlug, permissions: appPermissions, events: appEvents,
	}
	s.world.init()
	s.hooks.init(s)
	s.physics.init()

	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	s.wg.Go(func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the simulated GitHub stopped serving", "error", err)
		}
	})
	s.wg.Go(s.janitor)
	return s, nil
}

// reachable is an address to dial for a listener's address: one that listens everywhere is dialled on loopback.
func reachable(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port))
	}
	return a.String()
}

// URL is the REST root to give to clients as their base URL, http://host:port/api/v3.
func (s *Server) URL() string { return s.base + restRoot }

// Close stops serving, drops every connection and waits for deliveries under way.
func (s *Server) Close() error {
	s.mu.Lock() // nothing starts after this
	s.cancel()
	s.mu.Unlock()
	err := s.http.Close()
	s.wg.Wait()
	if t, ok := s.client.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	if err != nil {
		return fmt.Errorf("cannot close the simulated GitHub: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	root := http.NewServeMux()
	root.Handle(restRoot+"/", http.StripPrefix(restRoot, s.rest()))
	root.Handle(runnerRoot+"/", s.runnerService())
	s.pages(root)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closed := s.ctx.Err() != nil
		if !closed {
			s.wg.Add(1)
		}
		s.mu.Unlock()
		if closed {
			panic(http.ErrAbortHandler)
		}
		defer s.wg.Done()
		root.ServeHTTP(w, r)
	})
}

// newID is the next of the server's ids: one sequence for everything, as it keeps mix-ups visible. Called under mu or before serving.
func (s *Server) newID() int64 {
	s.nextID += 1 + s.rng.Int64N(7)
	return s.nextID
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// token is a bearer of n letters after a prefix; enough for a simulation, not for the world. Called under mu or before serving.
func (s *Server) token(prefix string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[s.rng.IntN(len(alphabet))]
	}
	return prefix + string(b)
}

// guid is a random UUID. Called under mu.
func (s *Server) guid() string {
	a, b := s.rng.Uint64(), s.rng.Uint64()
	a = a&^0xf000 | 0x4000
	b = b&^(0x3<<62) | 0x2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

// Changed is closed at the next change of any state: take it, look, and wait for it when what was seen is not enough.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// touch tells everyone who waits that something changed. Called under mu.
func (s *Server) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// set changes something that others may wait for.
func (s *Server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.touch()
}

// readAll reads a request body of at most 1 MiB.
func readAll(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("cannot read the request: %w", err)
	}
	return b, nil
}
