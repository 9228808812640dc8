package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// samples are durations that many goroutines note.
type samples struct {
	mu   sync.Mutex
	list []time.Duration
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, d)
}

func (s *samples) all() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func (s *samples) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// simFleet is many agents that run nothing.
type simFleet struct {
	child   *fleetController
	clients []*httpclient.Client
	stop    context.CancelFunc
	work    sync.WaitGroup

	measuring                    atomic.Bool
	heartbeats, reports, arrived samples
	requests, failed             atomic.Int64
	polled, beaten               atomic.Int64 // agents that have
	failure                      atomic.Pointer[error]
}

func newFleet(child *fleetController) (*simFleet, error) {
	f := &simFleet{child: child, stop: func() {}}
	for range child.hello.Hosts {
		// A client each, as on as many machines: connections are not shared.
		c, err := httpclient.New(httpclient.Options{Address: child.hello.Agents, CA: []byte(child.hello.CA)})
		if err != nil {
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

func (f *simFleet) close() {
	f.stop()
	f.work.Wait()
	for _, c := range f.clients {
		c.Close()
	}
}

// start begins every agent's loops, spread over one period as those of machines that were not started together.
func (f *simFleet) start(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	for i, h := range f.child.hello.Hosts {
		cred := protocol.Credential{HostID: h.ID, Token: h.Token, Instance: fmt.Sprintf("run-%d", i)}
		c := f.clients[i]
		// Not all in the same moment, as after a restart of a controller with many hosts.
		f.work.Go(func() {
			if pauseFor(ctx, rand.N(startSpread)) { //nolint:gosec // spreads load, guards nothing
				f.polls(ctx, c, cred)
			}
		})
		f.work.Go(func() { f.beats(ctx, c, cred, h.Runner) })
		f.work.Go(func() { f.tells(ctx, c, cred) })
	}
}

const startSpread = 20 * time.Second

// settle waits until every agent has polled and has sent a heartbeat.
func (f *simFleet) settle(ctx context.Context) error {
	all := int64(len(f.clients))
	deadline := time.Now().Add(3 * agent.HeartbeatInterval)
	for f.polled.Load() < all || f.beaten.Load() < all {
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d agents have polled, and %d have sent a heartbeat: %w", f.polled.Load(), all, f.beaten.Load(), f.firstFailure())
		}
		if !pauseFor(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

func (f *simFleet) polls(ctx context.Context, c *httpclient.Client, cred protocol.Credential) {
	f.polled.Add(1)
	var held []string
	for ctx.Err() == nil {
		t, err := c.Poll(protocol.WithHeld(ctx, held), cred, agent.PollWait)
		now := time.Now()
		held = nil
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.fail(err)
			pauseFor(ctx, time.Second)
			continue
		}
		f.count()
		if t == nil {
			continue
		}
		held = []string{t.ID}
		f.child.note(t.ID, now)
		// Answered beside the next poll, as a real agent does.
		f.work.Go(func() {
			if err := c.Result(ctx, cred, protocol.TaskResult{TaskID: t.ID, Attempt: t.Attempt, OK: true}); err != nil && ctx.Err() == nil {
				f.fail(err)
			}
			f.count()
		})
	}
}

func (f *simFleet) beats(ctx context.Context, c *httpclient.Client, cred protocol.Credential, runner string) {
	var holds []string
	if runner != "" {
		holds = []string{runner}
	}
	f.periodic(ctx, agent.HeartbeatInterval, &f.heartbeats, &f.beaten, func() error {
		_, err := c.Heartbeat(ctx, cred, protocol.Heartbeat{Version: "bench", Host: simHost(), Load1: rand.Float64(), CPUUsed: rand.Float64(), MemoryAvailableMB: 12000, Holds: holds, Counted: true}) //nolint:gosec // figures that vary
		return err
	})
}

func (f *simFleet) tells(ctx context.Context, c *httpclient.Client, cred protocol.Credential) {
	f.periodic(ctx, agent.ReportInterval, &f.reports, nil, func() error {
		_, err := c.Report(ctx, cred, nil)
		return err
	})
}

// periodic calls do once in each interval, from a random moment of the first on.
func (f *simFleet) periodic(ctx context.Context, interval time.Duration, took *samples, first *atomic.Int64, do func() error) {
	begun := false
	wait := rand.N(interval) //nolint:gosec // spreads load, guards nothing
	for pauseFor(ctx, wait) {
		wait = interval
		at := time.Now()
		err := do()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.fail(err)
			continue
		}
		f.count()
		if f.measuring.Load() {
			took.add(time.Since(at))
		}
		if !begun && first != nil {
			begun = true
			first.Add(1)
		}
	}
}

func (f *simFleet) count() {
	if f.measuring.Load() {
		f.requests.Add(1)
	}
}

// fail counts what goes wrong while it is measured: while all agents connect at once a handshake may take too long.
func (f *simFleet) fail(err error) {
	if !f.measuring.Load() {
		return
	}
	f.failed.Add(1)
	f.failure.CompareAndSwap(nil, &err)
}

func (f *simFleet) firstFailure() error {
	if err := f.failure.Load(); err != nil {
		return fmt.Errorf("an agent was refused: %w", *err)
	}
	return nil
}

// probesPerSecond are tasks, each written for one host.
const probesPerSecond = 10

// probe has tasks written for as long as that, and notes how long each took to its agent.
func (f *simFleet) probe(ctx context.Context, long time.Duration) (n int, err error) {
	var asked sync.WaitGroup
	var mu sync.Mutex
	var firstErr error
	began := time.Now()
	for i := 0; time.Since(began) < long; i++ {
		n++
		host := f.child.hello.Hosts[i%min(probeHosts, len(f.child.hello.Hosts))]
		asked.Go(func() {
			if err := f.child.ask(ctx, host.Runner); err != nil {
				mu.Lock()
				defer mu.Unlock()
				firstErr = err
			}
		})
		next := began.Add(time.Duration(i+1) * time.Second / probesPerSecond)
		if !pauseFor(ctx, time.Until(next)) {
			return n, ctx.Err()
		}
	}
	asked.Wait()
	if firstErr != nil {
		return n, firstErr
	}
	// What is on its way arrives.
	if !pauseFor(ctx, time.Second) {
		return n, ctx.Err()
	}
	took, err := f.child.delays(ctx)
	for _, d := range took {
		f.arrived.add(d)
	}
	return n, err
}

// simHost is a machine of the usual size.
func simHost() protocol.HostInfo {
	return protocol.HostInfo{
		OS: "linux", Arch: "amd64", Distro: "Debian GNU/Linux 13", CPUs: 8, MemoryMB: 16384, DiskTotalMB: 200_000, DiskFreeMB: 120_000 + rand.Int64N(100), Capacity: 8, //nolint:gosec // spreads load, guards nothing
		Backends: []protocol.BackendInfo{{Name: "podman", Version: "5.4.2", CPULimit: true, MemoryLimit: true}},
	}
}

// pauseFor waits, or says false when ctx ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
