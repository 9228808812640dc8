package agent

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/host"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretJIT = "jit-very-secret"

// machine is a host that a test sets up.
type machine struct{ boot time.Time }

func (machine) Size() host.Size {
	return host.Size{OS: "linux", Arch: "amd64", Distro: "Test", CPUs: 2, MemoryMB: 2048}
}
func (machine) Load() host.Load            { return host.Load{Load1: 1, CPUUsed: 0.5, MemoryAvailableMB: 1024} }
func (machine) Disk(string) (int64, int64) { return 1000, 500 }
func (m machine) BootTime() time.Time      { return m.boot }

// rig is a controller, an engine and the agent between them, inside a synctest bubble.
type rig struct {
	t      *testing.T
	ctl    *scripted
	engine *fake.Backend
	cfg    Config
	log    *lockedBuffer
	agent  *Agent
	cancel context.CancelFunc
	done   chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bubble runs a test with a rig in a bubble of its own. The agent is not started.
func bubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ctl: newScripted(), engine: fake.New("podman", time.Now), log: &lockedBuffer{}}
		r.cfg = Config{
			Controller: r.ctl, Address: "https://zoomies.test", StatePath: filepath.Join(dir, "agent.json"),
			JoinToken: "zoojoin_one", Name: "host-a", Version: "v1.0.0", Machine: machine{},
			Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		r.cfg.Backends = []backend.Backend{r.engine}
		r.cfg.Bind = func(id string) ([]backend.Backend, error) {
			r.engine.BindHost(id)
			return r.cfg.Backends, nil
		}
		fn(t, r)
		r.stop()
		if out := r.log.String(); strings.Contains(out, secretJIT) || strings.Contains(out, "zoojoin_") || strings.Contains(out, "agent-token") {
			t.Errorf("a secret is in the log:\n%s", out)
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
}

// start runs a new agent over the same state and engine.
func (r *rig) start() {
	r.t.Helper()
	a, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.agent, r.cancel, r.done = a, cancel, make(chan error, 1)
	go func() { r.done <- a.Run(ctx) }()
	synctest.Wait()
}

// stop ends the agent, if one runs, and waits for it.
func (r *rig) stop() {
	r.t.Helper()
	if r.agent == nil {
		return
	}
	r.cancel()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
	r.agent = nil
}

// after lets time go by.
func (r *rig) after(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

func createTask(runner string) protocol.Task {
	return protocol.Task{
		ID: "tsk_create_" + runner, Kind: protocol.TaskCreate, RunnerID: runner,
		Create: &protocol.CreateRunner{
			Name: "zoomies-" + runner, PoolID: "pool_1", Pool: "linux", Backend: "podman",
			Image: "runner:1", JITConfig: secretJIT, Timeout: protocol.SecondsOf(CreateTimeout),
		},
	}
}

func stopTask(runner string, grace time.Duration) protocol.Task {
	return protocol.Task{
		ID: "tsk_stop_" + runner, Kind: protocol.TaskStop, RunnerID: runner,
		Stop: &protocol.StopRunner{Grace: protocol.SecondsOf(grace)},
	}
}

func removeTask(runner string) protocol.Task {
	return protocol.Task{ID: "tsk_remove_" + runner, Kind: protocol.TaskRemove, RunnerID: runner}
}

// wantOK fails unless a task was answered once and well.
func (r *rig) wantOK(taskID string) protocol.TaskResult {
	r.t.Helper()
	res, n := r.ctl.result(taskID)
	if n != 1 || !res.OK {
		r.t.Errorf("%s: %d answers, the last %+v; want one that is OK", taskID, n, res)
	}
	return res
}

// wantFailed fails unless a task was answered once, with an error that contains part.
func (r *rig) wantFailed(taskID, part string) {
	r.t.Helper()
	res, n := r.ctl.result(taskID)
	if n != 1 || res.OK || !strings.Contains(res.Error, part) {
		r.t.Errorf("%s: %d answers, the last %+v; want one failure that says %q", taskID, n, res, part)
	}
}

func (r *rig) wantUnanswered(taskID string) {
	r.t.Helper()
	if res, n := r.ctl.result(taskID); n != 0 {
		r.t.Errorf("%s was answered: %+v", taskID, res)
	}
}

func (r *rig) wantSaid(runner string, want ...string) {
	r.t.Helper()
	if got := r.ctl.said(runner); !slices.Equal(got, want) {
		r.t.Errorf("of %s was said %v, want %v", runner, got, want)
	}
}

func (r *rig) wantCount(n int) {
	r.t.Helper()
	if got := r.engine.Count(); got != n {
		r.t.Errorf("%d workloads on the host, want %d", got, n)
	}
}

// A job's whole life on a host: created, reported, run, ended, acknowledged, gone.
func TestRunnerLivesAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		res := r.wantOK("tsk_create_run_1")
		w, spec, ok := r.engine.Runner("run_1")
		if !ok || res.WorkloadID != w.ID || !res.StartedAt.Equal(w.StartedAt) {
			t.Fatalf("result %+v does not name the workload %+v", res, w)
		}
		if spec.HostID != "hst_1" || spec.PoolID != "pool_1" || spec.Env[EnvJITConfig] != secretJIT || spec.Policy != "missing" {
			t.Errorf("spec = %+v", spec)
		}
		r.wantSaid("run_1", "registering/running")
		r.after(2 * SweepInterval)
		r.wantSaid("run_1", "registering/running", "/running")
		r.after(10 * time.Minute)
		r.wantCount(1)
		r.engine.Exit("run_1", 0)
		r.after(time.Second)
		r.wantSaid("run_1", "registering/running", "/running", "removed/exited", "removed/missing")
		r.wantCount(0)
		r.after(10 * time.Minute)
		r.wantSaid("run_1", "registering/running", "/running", "removed/exited", "removed/missing")
	})
}
