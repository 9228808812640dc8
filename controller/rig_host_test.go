package controller

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/host"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// testHost is a machine: an engine that outlives its agents, and the link to the controller, which a test may cut.
type testHost struct {
	r        *rig
	name     string
	capacity int
	engine   *engine
	link     *wire
	via      protocol.Controller // the agent's way to the controller, instead of link
	state    string
	token    string

	mu   sync.Mutex
	run  *agent.Agent
	end  context.CancelFunc
	done chan error
}

// machine is what a test's host measures of itself.
type machine struct{}

func (machine) Size() host.Size {
	return host.Size{OS: "linux", Arch: "amd64", CPUs: 8, MemoryMB: 16384}
}
func (machine) Load() host.Load            { return host.Load{} }
func (machine) Disk(string) (int64, int64) { return 100000, 50000 }
func (machine) BootTime() time.Time        { return time.Time{} }

// host joins a new host with so many slots and starts its agent.
func (r *rig) host(name string, capacity int) { r.hostVia(name, capacity, nil) }

func (r *rig) hostVia(name string, capacity int, via protocol.Controller) {
	r.t.Helper()
	h := &testHost{
		r: r, name: name, capacity: capacity, engine: newEngine(r), link: &wire{r: r}, via: via, state: filepath.Join(r.dir, name+".json"),
	}
	var err error
	if h.token, err = r.c().NewJoinToken(r.t.Context(), name, false, time.Minute); err != nil {
		r.t.Fatal(err)
	}
	r.hosts = append(r.hosts, h)
	h.start()
}

// guest is a rented machine that boots: its agent joins with the token that its drive holds.
func (r *rig) guest(name, token string, capacity int) {
	r.t.Helper()
	h := &testHost{r: r, name: name, capacity: capacity, engine: newEngine(r), link: &wire{r: r}, state: filepath.Join(r.dir, name+".json"), token: token}
	r.hosts = append(r.hosts, h)
	h.start()
}

// start starts the host's agent, for the first time or again.
func (h *testHost) start() {
	h.r.t.Helper()
	var to protocol.Controller = h.link
	if h.via != nil {
		to = h.via
	}
	a, err := agent.New(agent.Config{
		Controller: to, Backends: []backend.Backend{h.engine}, StatePath: h.state, JoinToken: h.token, Name: h.name, Version: "test",
		Capacity: h.capacity, Machine: machine{}, Logger: h.r.logger().With("host", h.name), Now: h.r.clock.now,
	})
	if err != nil {
		h.r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run, h.end, h.done = a, cancel, done
}

// look lets the agent's own net come round now: a runner is called running a sweep interval after its start.
func (h *testHost) look() {
	h.r.t.Helper()
	h.r.clock.advance(agent.SweepInterval)
	h.mu.Lock()
	a := h.run
	h.mu.Unlock()
	if err := a.ReconcileOnce(h.r.t.Context()); err != nil {
		h.r.t.Fatal(err)
	}
}

// stop ends the agent in order; workloads go on.
func (h *testHost) stop() {
	h.mu.Lock()
	end, done := h.end, h.done
	h.end, h.done = nil, nil
	h.mu.Unlock()
	if end == nil {
		return
	}
	end()
	if err := <-done; err != nil {
		h.r.t.Errorf("the agent of %s ended: %v", h.name, err)
	}
}

// kill is a power cut: nothing is said any more and nothing runs any more.
func (h *testHost) kill() {
	h.link.cut.Store(true)
	h.stop()
	h.engine.close()
}

var errCut = errors.New("the controller cannot be reached")

// wire is a host's way to whichever controller runs. faults may break single calls.
type wire struct {
	r   *rig
	cut atomic.Bool
	// Called before and after a call reaches the controller, if set; an error is what the agent sees.
	beforeResult, afterResult func(protocol.TaskResult) error
	afterPoll                 func(*protocol.Task) error
	beforeReport              func([]protocol.RunnerReport) error
}

func (l *wire) to() (protocol.Controller, error) {
	c := l.r.c()
	if c == nil || l.cut.Load() {
		return nil, errCut
	}
	return c.Agents(), nil
}

func (l *wire) Join(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	c, err := l.to()
	if err != nil {
		return protocol.JoinResponse{}, err
	}
	return c.Join(ctx, req)
}

func (l *wire) Heartbeat(ctx context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	c, err := l.to()
	if err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	return c.Heartbeat(ctx, cred, hb)
}

func (l *wire) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	c, err := l.to()
	if err != nil {
		return nil, err
	}
	// A controller that is stopped ends its polls, as its closing server would.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if now, err := l.to(); err != nil || now != c {
				cancel()
				return
			}
			select {
			case <-gone:
				return
			case <-tick.C:
			}
		}
	}()
	t, err := c.Poll(ctx, cred, wait)
	if t != nil && l.afterPoll != nil {
		if err := l.afterPoll(t); err != nil {
			return nil, err
		}
	}
	return t, err
}

func (l *wire) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	c, err := l.to()
	if err != nil {
		return err
	}
	if l.beforeResult != nil {
		if err := l.beforeResult(res); err != nil {
			return err
		}
	}
	if err := c.Result(ctx, cred, res); err != nil {
		return err
	}
	if l.afterResult != nil {
		return l.afterResult(res)
	}
	return nil
}

func (l *wire) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	c, err := l.to()
	if err != nil {
		return protocol.ReportResponse{}, err
	}
	if l.beforeReport != nil {
		if err := l.beforeReport(reports); err != nil {
			return protocol.ReportResponse{}, err
		}
	}
	return c.Report(ctx, cred, reports)
}

func (l *wire) SendLogs(ctx context.Context, cred protocol.Credential, stream string, rd io.Reader) error {
	c, err := l.to()
	if err != nil {
		return err
	}
	return c.SendLogs(ctx, cred, stream, rd)
}

// engine is the fake engine whose workloads are runners in goroutines.
type engine struct {
	*fake.Backend
	r *rig
	// boot decides what a workload does instead of running a runner: what it prints, and its exit code. Nil, or ok false, is
	// a runner.
	boot func(spec backend.Spec) (log string, code int, ok bool)
	gate chan struct{} // when set, creates wait until it is closed
	at   chan string   // when set, is told the runner ID of every create before it waits

	mu      sync.Mutex
	running map[string]*runnerProcess // by runner ID
	work    sync.WaitGroup
}

func newEngine(r *rig) *engine {
	return &engine{Backend: fake.New("podman", r.clock.now), r: r, running: map[string]*runnerProcess{}}
}

// Create implements backend.Backend.
func (e *engine) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	e.mu.Lock()
	at, gate := e.at, e.gate
	e.mu.Unlock()
	if at != nil {
		at <- spec.RunnerID
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return backend.Workload{}, ctx.Err()
		}
	}
	w, err := e.Backend.Create(ctx, spec)
	if err != nil {
		return w, err
	}
	e.mu.Lock()
	boot := e.boot
	e.mu.Unlock()
	if boot != nil {
		if log, code, ok := boot(spec); ok {
			e.Print(spec.RunnerID, log)
			e.Exit(spec.RunnerID, code)
			return w, nil
		}
	}
	ctx, kill := context.WithCancelCause(context.Background())
	p := &runnerProcess{r: e.r, kill: kill}
	e.mu.Lock()
	e.running[spec.RunnerID] = p
	e.mu.Unlock()
	e.work.Go(func() {
		code := p.run(ctx, spec.Env[agent.EnvJITConfig])
		if ctx.Err() == nil {
			e.Exit(spec.RunnerID, code)
		}
	})
	return w, nil
}

// Stop implements backend.Backend.
func (e *engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	e.signal(id, errTerminated)
	return e.Backend.Stop(ctx, id, grace)
}

// Remove implements backend.Backend.
func (e *engine) Remove(ctx context.Context, id string) error {
	e.signal(id, errKilled)
	return e.Backend.Remove(ctx, id)
}

func (e *engine) signal(workload string, sig error) {
	ws, _ := e.List(context.Background())
	for _, w := range ws {
		if w.ID == workload {
			e.kill(w.RunnerID, sig)
		}
	}
}

func (e *engine) kill(runnerID string, sig error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.running[runnerID]; p != nil {
		p.kill(sig)
	}
}

// close kills everything that runs.
func (e *engine) close() {
	e.mu.Lock()
	for _, p := range e.running {
		p.kill(errKilled)
	}
	e.mu.Unlock()
	e.work.Wait()
}

// deafen has a runner hear nothing any more, and run on: its workload stays, its process is gone.
func (e *engine) deafen(runnerID string) { e.kill(runnerID, errKilled) }

func (e *engine) setBoot(f func(backend.Spec) (string, int, bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.boot = f
}
