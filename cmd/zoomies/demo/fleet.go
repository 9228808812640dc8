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
	"os"
	"path/filepath"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
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
	NodeOptions
	ImageFile string            // docker archive of the runner image; "" loads none
	MaxPool   int               // runners of the pool at most
	Pool      func(*store.Pool) // changes the pool before it is written; may be nil
	GitHub    simgithub.Options // of the simulated GitHub; its addresses are filled in
	// Engine is a running Podman service to use instead of one of the fleet's own.
	Engine  *podman.Service
	NoAgent bool // start without the embedded agent
}

// Fleet is everything that runs.
type Fleet struct {
	*Node
	Engine *podman.Service
	GitHub *simgithub.Server
	Pool   store.Pool
	In     store.Installation

	o   Options
	own bool // the engine is ours to stop
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
		f.Engine, err = StartEngine(ctx, o.Dir, o.Logger)
		if err != nil {
			return f, err
		}
	}
	o.Socket = f.Engine.Socket()
	if o.ImageFile != "" {
		if err := LoadImage(ctx, o.Socket, o.ImageFile); err != nil {
			return f, err
		}
	}
	if f.GitHub, err = StartGitHub(ctx, o.GitHub, o.Logger); err != nil {
		return f, err
	}
	f.Node = NewNode(o.NodeOptions)
	f.Node.prepare = f.makePool
	if err := f.StartController(ctx); err != nil {
		return f, err
	}
	if err := podman.New(podman.Options{Socket: o.Socket}).CheckNetwork(ctx, f.Pool.Network); err != nil {
		return f, fmt.Errorf("cannot run jobs here: %w", err)
	}
	f.GitHub.SetWebhookURL(f.WebhookURL())
	if o.NoAgent {
		return f, nil
	}
	return f, f.startHost(ctx)
}

// joinTimeout is how long the embedded agent may take until its host can run something.
const joinTimeout = time.Minute

// startHost starts the embedded agent and waits until its host is there: a job that is queued before then would measure how
// long a host takes to join.
func (f *Fleet) startHost(ctx context.Context) error {
	k := f.Controller()
	sub := k.Events().Subscribe(64)
	defer sub.Close()
	if err := f.StartAgent(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	// An engine that is busy, with loading an image for example, may not answer the first heartbeats.
	again := time.NewTicker(time.Second)
	defer again.Stop()
	last := errors.New("the agent did not join")
	for {
		hosts, err := k.Store.Hosts(ctx)
		if err != nil {
			return errors.Join(err, last)
		}
		for _, h := range hosts {
			for _, b := range h.Backends {
				if b.Error == "" {
					return nil
				}
				last = fmt.Errorf("cannot run containers with %s: %s", b.Name, b.Error)
			}
		}
		select {
		case <-sub.C:
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("no host was ready within %s: %w", joinTimeout, last)
		}
	}
}

// StartEngine starts a Podman service with storage of its own below dir.
func StartEngine(ctx context.Context, dir string, log *slog.Logger) (*podman.Service, error) {
	return podman.StartService(ctx, podman.ServiceOptions{
		Root: filepath.Join(dir, "storage"), RunRoot: filepath.Join(dir, "run"), Socket: filepath.Join(dir, "podman.sock"), Logger: log,
	})
}

// LoadImage loads an image archive into the engine.
func LoadImage(ctx context.Context, socket, file string) error {
	r, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("cannot open the runner image; build it with `make build`: %w", err)
	}
	defer r.Close() //nolint:errcheck // read only
	if _, err := podman.New(podman.Options{Socket: socket}).Load(ctx, r); err != nil {
		return fmt.Errorf("cannot load the runner image: %w", err)
	}
	return nil
}

// StartGitHub starts the simulated GitHub where containers can reach it: on every address, but only for this machine.
func StartGitHub(ctx context.Context, o simgithub.Options, log *slog.Logger) (*simgithub.Server, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the simulated GitHub: %w", err)
	}
	o.Listener, o.Logger = localOnly{ln}, log.With("room", "sim")
	o.PublicURL = fmt.Sprintf("http://host.containers.internal:%d", ln.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // a TCP listener's address is one
	return simgithub.New(o)
}

// makePool writes what an operator would have declared before the first job: the installation and the pool.
func (f *Fleet) makePool(ctx context.Context, st *store.Store) error {
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
		Network: PoolNetwork(),
	}
	if f.o.Pool != nil {
		f.o.Pool(&p)
	}
	f.Pool, err = st.CreatePool(ctx, p)
	return err
}

// discardTimeout bounds the removal of the fleet's own engine.
const discardTimeout = time.Minute

// Close ends everything. What it started, it stops.
func (f *Fleet) Close() error {
	var errs []error
	if f.Node != nil {
		errs = append(errs, f.StopAgent(), f.StopController())
	}
	if f.GitHub != nil {
		errs = append(errs, f.GitHub.Close())
	}
	if f.own && f.Engine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), discardTimeout)
		defer cancel()
		errs = append(errs, f.Engine.Discard(ctx))
	}
	return errors.Join(errs...)
}
