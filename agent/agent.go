// Package agent runs runners on one host: it joins a controller, takes tasks from it, starts,
// watches and removes workloads through backends, and reports what it sees. The agent inside
// the controller is the same code with the controller itself as its protocol.Controller.
//
// An agent must never decide what should run, never stop a runner because it stops itself or
// because the controller is silent, and never take an uncertain answer for an absence.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/host"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// Config is what an agent needs to know.
type Config struct {
	Controller protocol.Controller
	// Address is the controller's address as it is kept in the state file; informational.
	Address string
	// CAPin is the pin by which Controller trusts the controller's certificate; kept beside Address, empty for none.
	CAPin    string
	Backends []backend.Backend
	// Bind makes the backends of a host once its ID is known, so that agents which share an
	// engine see only their own workloads. It must return the same kinds as Backends, which
	// then serve only to describe the host before it joins. Nil uses Backends throughout.
	Bind func(hostID string) ([]backend.Backend, error)
	// StatePath is agent.json: the host's credential and the hashes of spent join tokens.
	StatePath string
	JoinToken string // secret; needed for the first join, kept nowhere
	// NewJoinToken makes a join token when one is needed and JoinToken is empty or spent; nil where
	// nobody can. With it a host that was deleted joins again by itself.
	NewJoinToken func(context.Context) (string, error)
	Name         string // the host's name
	Version      string
	// Capacity is how many runners the host offers; 0 is one for each core.
	Capacity int
	WorkDir  string // whose filesystem is measured, as is that of each engine's storage; "" is the state file's folder
	Labels   map[string]string
	// FinishedRetention is how long an ended workload stays after its end was acknowledged,
	// until the controller hands out another value.
	FinishedRetention time.Duration
	// StartConcurrency is how many creates or prewarms run at once; 0 is one.
	StartConcurrency int
	// ImageKeep is how long an image that was used stays, however full the disk; 0 is the constant of that name.
	ImageKeep time.Duration
	Machine   host.Machine     // measures the host; nil is the machine itself
	Now       func() time.Time // nil is time.Now
	Logger    *slog.Logger     // nil is slog.Default
}

// ErrHostChanged ends Run when the controller, having forgotten this host, took it in again
// under another ID. Runners are left running; make a new agent and run that, as Serve does.
var ErrHostChanged = errors.New("the host has another ID now")

// Agent is one host's agent. Make it with New and run it once.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	machine  host.Machine
	backends []backend.Backend // what is looked after: own, and what former hosts left (see former.go)
	own      []backend.Backend // what runners are started with
	byName   map[string]backend.Backend

	session  *session
	offered  string // by NewJoinToken, and not refused yet; touched by join alone, which never runs twice at once
	fleet    *fleet
	orphans  orphans
	blind    sync.Map // backends that did not answer the last sweep
	sighted  sync.Map // names of backends that have answered since this agent started
	starts   *startQueue
	cooldown *cooldown
	tasks    *taskTable
	streams  *streams
	usage    *usage
	prepared prepared
	images   *imageCache
	answers  sync.Map // the last good probe of each backend, by its name
	storage  sync.Map // where each engine keeps its images, by the backend's name

	engineSize atomic.Pointer[backend.Info] // the last answer of an engine that said its size

	sweepNow, reportNow wake
	evictNow            wake          // a storage filesystem is nearly full
	lifecycle           chan struct{} // slots of stops and removals

	polled    atomic.Bool  // one poll has been answered since start
	cordoned  atomic.Bool  // as the controller last said
	stopping  atomic.Bool  // no task is begun any more
	interval  atomic.Int64 // heartbeat pace, nanoseconds
	retention atomic.Int64 // finished retention, nanoseconds

	work    sync.WaitGroup // tasks and removals in flight, with the delivery of answers
	relays  sync.WaitGroup // log streams
	reaping chan struct{}  // slots of removals that the agent began by itself
	started atomic.Bool
	// rehosted ends Run because the host has another ID.
	rehosted context.CancelCauseFunc
	serving  context.Context // ends when Run is told to stop
	deliver  context.Context // ends when shutdown's grace is over
}

// New checks cfg and makes an agent. It touches nothing yet.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Controller == nil:
		return nil, errors.New("cannot make the agent: it has no controller")
	case len(cfg.Backends) == 0:
		return nil, errors.New("cannot make the agent: it has no backend to run runners with; install Podman or set another backend")
	case cfg.StatePath == "":
		return nil, errors.New("cannot make the agent: it has no path for its state file")
	case cfg.Name == "":
		return nil, errors.New("cannot make the agent: the host has no name")
	case cfg.Capacity < 0:
		return nil, fmt.Errorf("cannot make the agent: a capacity of %d runners is less than none", cfg.Capacity)
	}
	cfg.setDefaults()
	a := &Agent{
		cfg:       cfg,
		log:       cfg.Logger,
		now:       cfg.Now,
		machine:   cfg.Machine,
		session:   newSession(),
		fleet:     newFleet(cfg.Now),
		orphans:   orphans{seen: map[string]time.Time{}},
		starts:    newStartQueue(),
		cooldown:  newCooldown(cfg.Now),
		tasks:     newTaskTable(),
		streams:   newStreams(),
		usage:     newUsage(),
		prepared:  prepared{at: map[string]time.Time{}},
		images:    newImageCache(imagesPath(cfg.StatePath), cfg.Now),
		evictNow:  newWake(),
		sweepNow:  newWake(),
		reportNow: newWake(),
		lifecycle: make(chan struct{}, LifecycleConcurrency),
		reaping:   make(chan struct{}, 4),
	}
	a.interval.Store(int64(HeartbeatInterval))
	a.retention.Store(int64(cfg.FinishedRetention))
	if err := a.use(cfg.Backends); err != nil {
		return nil, fmt.Errorf("cannot make the agent: %w", err)
	}
	return a, nil
}

// use takes the backends that the agent works with from now on.
func (a *Agent) use(bs []backend.Backend) error {
	byName := make(map[string]backend.Backend, len(bs))
	for _, b := range bs {
		if _, twice := byName[b.Name()]; twice {
			return fmt.Errorf("backend %s is given twice", b.Name())
		}
		byName[b.Name()] = b
	}
	a.backends, a.own, a.byName = bs, bs, byName
	return nil
}

func (c *Config) setDefaults() {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.StartConcurrency <= 0 {
		c.StartConcurrency = StartConcurrency
	}
	if c.ImageKeep <= 0 {
		c.ImageKeep = ImageKeep
	}
	if c.WorkDir == "" {
		c.WorkDir = filepath.Dir(c.StatePath)
	}
	if c.Machine == nil {
		c.Machine = host.Local{}
	}
}

// HostID is the host's ID, "" before it has joined.
func (a *Agent) HostID() string { return a.session.credential().HostID }

// Run joins when it must, adopts what runs already, and serves until ctx ends; then it waits
// for the tasks in flight, sends one last report and returns nil, and leaves every runner
// running. It returns an error only when it cannot begin.
func (a *Agent) Run(ctx context.Context) error {
	if a.started.Swap(true) {
		return errors.New("cannot run the agent twice: make a new one")
	}
	if err := a.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := a.bind(); err != nil {
		return err
	}
	if err := a.takeFormer(ctx); err != nil {
		return err
	}
	if err := a.images.load(); err != nil {
		a.log.Warn("what was fetched for runners before is not known, so none of it is evicted", "error", err)
	}
	ctx, rehosted := context.WithCancelCause(ctx)
	defer rehosted(nil)
	a.rehosted = rehosted
	a.adoptExisting(ctx)

	deliver, stopDeliveries := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDeliveries()
	a.serving, a.deliver = ctx, deliver

	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){
		a.pollLoop, a.heartbeatLoop, a.sweepLoop, a.reportLoop, a.sampleLoop, a.evictLoop,
	} {
		loops.Go(func() { loop(ctx) })
	}
	for _, b := range a.backends {
		loops.Go(func() { a.watchLoop(ctx, b) })
	}
	for range a.cfg.StartConcurrency {
		go a.startLoop(ctx) // a create in its slot outlives the loops
	}
	// The guardian of the credential outlives them too, so that answers still get through.
	var guard sync.WaitGroup
	guard.Go(func() { a.sessionLoop(deliver) })

	<-ctx.Done()
	a.stopping.Store(true)
	loops.Wait()
	a.relays.Wait()
	a.shutdown()
	stopDeliveries()
	guard.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrHostChanged) {
		return err
	}
	return nil
}

// shutdown turns away what waits, gives what is in flight ShutdownGrace, and sends one last
// report. Whatever is not done by then runs to its own timeout; no runner is touched.
func (a *Agent) shutdown() {
	for _, j := range a.starts.drain() {
		a.decline(j)
	}
	if !waitFor(&a.work, ShutdownGrace) {
		a.log.Warn("stopping with tasks in flight; the controller offers them again")
	}
	a.lastReport()
}

// bind makes the backends of this host.
func (a *Agent) bind() error {
	if a.cfg.Bind == nil {
		return nil
	}
	bs, err := a.cfg.Bind(a.HostID())
	if err == nil {
		err = a.use(bs)
	}
	if err != nil {
		return fmt.Errorf("cannot open the host's backends: %w", err)
	}
	return nil
}
