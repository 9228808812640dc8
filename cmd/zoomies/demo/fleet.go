// Package demo runs a whole fleet in one process: a controller with its embedded agent and SQLite, a simulated GitHub, and
// real Podman containers. `zoomies demo` shows it, and the end-to-end tests drive it. It must never be part of a
// real controller.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// Names of what the demo makes.
const (
	Organisation = "acme"
	Repository   = "acme/widgets"
	PoolName     = "demo"
	PoolLabel    = "zoomies"
	Image        = "localhost/zoomies/demo-runner:latest"
)

// Options of a fleet.
type Options struct {
	Dir       string // work folder, made by the caller
	ImageFile string // docker archive of the runner image; "" loads none
	Capacity  int    // slots of the embedded agent
	MaxPool   int    // runners of the pool at most
	Settings  controller.Settings
	Pool      func(*store.Pool) // changes the pool before it is written; may be nil
	Latency   time.Duration     // of the simulated GitHub, for each request
	Logger    *slog.Logger
	// Engine is a running Podman service to use instead of one of the fleet's own.
	Engine *podman.Service
	// WrapAgents and WrapGitHub put something between the parts (a kill point, a fault); may be nil.
	WrapAgents func(protocol.Controller) protocol.Controller
	WrapGitHub func(github.API) github.API
	NoAgent    bool // start without the embedded agent
}

// Fleet is everything that runs.
type Fleet struct {
	o      Options
	Engine *podman.Service
	GitHub *simgithub.Server
	Pool   store.Pool
	In     store.Installation
	URL    string // of the controller

	mu    sync.Mutex
	ctrl  *Control
	agent *AgentRun
	own   bool // the engine is ours to stop
}

// Control is one run of the controller: killed and started again, it is another.
type Control struct {
	*controller.Controller
	Store *store.Store
	stop  context.CancelFunc
	done  chan struct{}
	http  *http.Server
}

// AgentRun is one run of the agent.
type AgentRun struct {
	stop    context.CancelFunc
	done    chan error
	Backend *podman.Backend
}

// Start starts a fleet. Close it with Close.
func Start(ctx context.Context, o Options) (f *Fleet, err error) {
	f = &Fleet{o: o, Engine: o.Engine}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			f = nil
		}
	}()
	if f.Engine == nil {
		f.own = true
		f.Engine, err = podman.StartService(ctx, podman.ServiceOptions{
			Root: filepath.Join(o.Dir, "storage"), RunRoot: filepath.Join(o.Dir, "run"), Socket: filepath.Join(o.Dir, "podman.sock"), Logger: o.Logger,
		})
		if err != nil {
			return f, err
		}
	}
	if o.ImageFile != "" {
		if err := f.loadImage(ctx); err != nil {
			return f, err
		}
	}
	if err := f.startGitHub(ctx); err != nil {
		return f, err
	}
	if err := f.StartController(ctx); err != nil {
		return f, err
	}
	if err := f.makePool(ctx); err != nil {
		return f, err
	}
	if o.NoAgent {
		return f, nil
	}
	return f, f.StartAgent(ctx)
}

func (f *Fleet) loadImage(ctx context.Context) error {
	r, err := os.Open(f.o.ImageFile)
	if err != nil {
		return fmt.Errorf("cannot open the runner image; build it with `make build`: %w", err)
	}
	defer r.Close() //nolint:errcheck // read only
	b, err := podman.New(podman.Options{Socket: f.Engine.Socket(), Logger: f.o.Logger})
	if err != nil {
		return err
	}
	if _, err := b.Load(ctx, r); err != nil {
		return fmt.Errorf("cannot load the runner image: %w", err)
	}
	return nil
}

// startGitHub starts the simulated GitHub where containers can reach it: on every address, but only for this machine.
func (f *Fleet) startGitHub(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
	if err != nil {
		return fmt.Errorf("cannot listen for the simulated GitHub: %w", err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	f.GitHub, err = simgithub.New(simgithub.Options{
		Listener: localOnly{ln}, Latency: f.o.Latency, Logger: f.o.Logger.With("room", "sim"),
		PublicURL: fmt.Sprintf("http://host.containers.internal:%d", port),
	})
	return err
}

// StartController starts the controller over the fleet's database, for the first time or again.
func (f *Fleet) StartController(ctx context.Context) error {
	keys, err := secrets.LoadOrCreate(filepath.Join(f.o.Dir, "zoomies.keys"))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Options{Path: filepath.Join(f.o.Dir, "zoomies.db"), Keys: keys, Logger: f.o.Logger})
	if err != nil {
		return err
	}
	client := controller.GitHubClients(github.MintsPerMinute)
	c, err := controller.New(ctx, controller.Options{
		Store: st, Settings: f.o.Settings, Version: "demo", Logger: f.o.Logger.With("room", "controller"),
		GitHub: func(in store.Installation) (github.API, error) {
			api, err := client(in)
			if err == nil && f.o.WrapGitHub != nil {
				api = f.o.WrapGitHub(api)
			}
			return api, err
		},
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listenAddress())
	if err != nil {
		return errors.Join(fmt.Errorf("cannot listen for the controller: %w", err), st.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &Control{Controller: c, Store: st, stop: stop, done: make(chan struct{}), http: &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second}}
	f.URL = "http://" + ln.Addr().String()
	f.GitHub.SetWebhookURL(f.URL + "/webhooks/github")
	go func() { _ = k.http.Serve(ln) }() // ends with http.ErrServerClosed
	go func() {
		defer close(k.done)
		if err := c.Run(run); err != nil {
			f.o.Logger.Error("the controller stopped", "err", err)
		}
	}()
	f.mu.Lock()
	f.ctrl = k
	f.mu.Unlock()
	return nil
}

// listenAddress keeps the controller's port over a restart.
func (f *Fleet) listenAddress() string {
	if f.URL == "" {
		return "127.0.0.1:0"
	}
	return f.URL[len("http://"):]
}

// Controller is the controller that runs now.
func (f *Fleet) Controller() *Control {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctrl
}

// StopController ends the controller and closes its store.
func (f *Fleet) StopController() error {
	k := f.Controller()
	if k == nil {
		return nil
	}
	f.mu.Lock()
	f.ctrl = nil
	f.mu.Unlock()
	k.stop()
	err := k.http.Close()
	<-k.done
	return errors.Join(err, k.Store.Close())
}

func (f *Fleet) makePool(ctx context.Context) error {
	st := f.Controller().Store
	if ps, err := st.Pools(ctx); err != nil || len(ps) > 0 {
		return err
	}
	app := f.GitHub.App()
	number := f.GitHub.AddInstallation(Organisation, "Organization")
	f.GitHub.AddRepository(number, Repository)
	var err error
	f.In, err = st.CreateInstallation(ctx, store.Installation{
		Name: Organisation, BaseURL: f.GitHub.URL(), AppID: app.ID, InstallationID: number, Account: Organisation, AccountType: "Organization",
		PrivateKey: secrets.New(app.PrivateKeyPEM), WebhookSecret: secrets.Of(app.WebhookSecret),
	})
	if err != nil {
		return err
	}
	p := store.Pool{
		Name: PoolName, InstallationID: f.In.ID, Labels: []string{PoolLabel}, Backend: "podman", Image: Image, PullPolicy: "never",
		Max: f.o.MaxPool, Enabled: true, Ephemeral: true, IdleTimeout: time.Minute, CPUs: 1, MemoryMB: 512, PidsLimit: 1024,
	}
	if f.o.Pool != nil {
		f.o.Pool(&p)
	}
	f.Pool, err = st.CreatePool(ctx, p)
	return err
}

// StartAgent starts the embedded agent, for the first time or again.
func (f *Fleet) StartAgent(ctx context.Context) error {
	k := f.Controller()
	token, err := k.NewJoinToken(ctx, "demo-host", true, time.Minute)
	if err != nil {
		return err
	}
	b, err := podman.New(podman.Options{Socket: f.Engine.Socket(), Logger: f.o.Logger})
	if err != nil {
		return err
	}
	agents := protocol.Controller(liveController{f})
	if f.o.WrapAgents != nil {
		agents = f.o.WrapAgents(agents)
	}
	a, err := agent.New(agent.Config{
		Controller: agents, Address: "in-process", Backends: []backend.Backend{b}, StatePath: filepath.Join(f.o.Dir, "agent.json"), JoinToken: token,
		Name: "demo-host", Version: "demo", Capacity: f.o.Capacity, WorkDir: f.o.Dir, Logger: f.o.Logger.With("room", "agent"),
	})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &AgentRun{stop: stop, done: make(chan error, 1), Backend: b}
	go func() { r.done <- a.Run(run) }()
	f.mu.Lock()
	f.agent = r
	f.mu.Unlock()
	return nil
}

// Agent is the agent that runs now.
func (f *Fleet) Agent() *AgentRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agent
}

// StopAgent ends the agent; its runners go on.
func (f *Fleet) StopAgent() error {
	r := f.Agent()
	if r == nil {
		return nil
	}
	f.mu.Lock()
	f.agent = nil
	f.mu.Unlock()
	r.stop()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Close ends everything. What it started, it stops.
func (f *Fleet) Close() error {
	errs := []error{f.StopAgent(), f.StopController()}
	if f.GitHub != nil {
		errs = append(errs, f.GitHub.Close())
	}
	if f.own && f.Engine != nil {
		errs = append(errs, f.Engine.Close())
	}
	return errors.Join(errs...)
}
