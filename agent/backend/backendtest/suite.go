package backendtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Harness is what a backend's own test gives the suite.
type Harness struct {
	// New returns a backend that sees hostID's workloads and nobody else's. Two of the same
	// hostID are an agent before and after its restart.
	New func(t *testing.T, hostID string) backend.Backend
	// Image is a Spec.Image in which `sh -c <script>` with busybox's or coreutils' programs
	// works.
	Image string
	// Half makes what an agent killed between creating and starting leaves behind; nil when
	// there is no such moment.
	Half func(t *testing.T, b backend.Backend, spec backend.Spec)
	// Foreign starts something on the same engine that is not ours, and says whether it
	// still runs.
	Foreign func(t *testing.T, labels map[string]string) (id string, runs func() bool)
	// Down and Up take the engine away and bring it back; nil when there is none.
	Down, Up func(t *testing.T)
	// Leftovers counts what is on the engine at all, volumes included, for leak checks.
	Leftovers func(t *testing.T) []string
	// Delete removes one container behind the backend's back.
	Delete func(t *testing.T, id string)
	// Isolates says that workloads are containers: limits, capabilities, sidecars.
	Isolates bool
	// DaemonImage has a dockerd (and a podman) that answers on its socket, SilentImage one
	// that never does, and BrokenImage one that ends at once.
	DaemonImage, SilentImage, BrokenImage string
}

// patience bounds every wait of the suite; a machine that runs other tests is slow.
const patience = 60 * time.Second

// Run runs the suite. The engine is taken down at the end only, so that everything else may
// run in parallel.
func Run(t *testing.T, h Harness) {
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, Harness){
			"a workload lives and ends":                   testLifecycle,
			"probe tells what the machine is":             testProbe,
			"exit codes are read back":                    testExitCodes,
			"environment arrives intact":                  testEnvironment,
			"secrets are in no process's arguments":       testSecretHidden,
			"logs keep their order":                       testLogOrder,
			"logs follow to the end":                      testLogFollow,
			"logs give the tail":                          testLogTail,
			"stop honours the signal":                     testStopGraceful,
			"stop kills after grace":                      testStopKills,
			"remove is idempotent":                        testRemove,
			"a runner has one workload":                   testExists,
			"what a crash left can be cleared":            testHalf,
			"others' workloads are left alone":            testForeign,
			"another host's workloads are not ours":       testOtherHost,
			"a restarted agent finds its workloads":       testAdoption,
			"ten start at once":                           testParallel,
			"watch sees start and exit":                   testWatch,
			"stats grow":                                  testStats,
			"an unknown workload is not found":            testUnknown,
			"an unusable spec is refused":                 testInvalid,
			"a missing image is said":                     testMissingImage,
			"a create that is given up on leaves nothing": testCancelled,
			"a command that does not exist is noticed":    testBadCommand,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, h) })
		}
		if !h.Isolates {
			return
		}
		for name, test := range map[string]func(*testing.T, Harness){
			"limits are in the cgroup":                  testLimits,
			"the number of processes is bounded":        testPidsLimit,
			"capabilities are dropped":                  testCapabilities,
			"a read-only runner can only write scratch": testReadOnly,
			"out of memory is said":                     testOOM,
			"no network means none":                     testNoNetwork,
			"a sidecar is ready before its runner":      testDaemon,
			"a silent sidecar leaves nothing":           testSilentDaemon,
			"a sidecar that ends is said":               testBrokenDaemon,
			"half a pair can be removed":                testHalfPair,
			"a sweep spares what is in use and others'": testSweepSparesOthers,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, h) })
		}
	})
	if h.Leftovers != nil {
		t.Run("nothing is left behind", func(t *testing.T) {
			if left := h.Leftovers(t); len(left) > 0 {
				t.Errorf("after every test: %v", left)
			}
		})
		t.Run("twenty runners in a row keep the disk flat", func(t *testing.T) { testFlat(t, h) })
	}
	if h.Down != nil {
		t.Run("an engine that is gone is unavailable, and comes back", func(t *testing.T) { testOutage(t, h) })
	}
}

// rig is one test's backend, host and helpers.
type rig struct {
	backend.Backend
	*testing.T
	h    Harness
	ctx  context.Context //nolint:containedctx // a test's
	host string
}

func start(t *testing.T, h Harness) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	host := "hst_" + strings.ToLower(rand.Text()[:8])
	r := &rig{Backend: h.New(t, host), T: t, h: h, ctx: ctx, host: host}
	t.Cleanup(func() { r.clear() })
	return r
}

// clear removes whatever the test left on its host.
func (r *rig) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), patience)
	defer cancel()
	all, err := r.List(ctx)
	if err != nil {
		r.Errorf("cannot clean up: %v", err)
	}
	for _, w := range all {
		if err := r.Remove(ctx, w.ID); err != nil {
			r.Errorf("cannot clean up: %v", err)
		}
	}
}

// spec of a workload that runs script.
func (r *rig) spec(script string) backend.Spec {
	id := strings.ToLower(rand.Text()[:10])
	network := "none" // a bridge costs a fifth of a second each
	if !r.h.Isolates {
		network = ""
	}
	return backend.Spec{
		Name: "zoomies-" + id, HostID: r.host, RunnerID: "run_" + id, PoolID: "pool_test",
		Image: r.h.Image, Policy: backend.PullNever, Network: network,
		Command: []string{"sh", "-c", script},
	}
}

// sleeper runs until it is told to end, and ends at once then.
const sleeper = `trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done`

func (r *rig) create(spec backend.Spec) backend.Workload {
	r.Helper()
	w, err := r.Create(r.ctx, spec)
	if err != nil {
		r.Fatalf("create: %v", err)
	}
	return w
}

// run creates a workload and waits until it has ended.
func (r *rig) run(spec backend.Spec) (backend.Workload, string) {
	r.Helper()
	w := r.exited(r.create(spec).ID)
	return w, r.log(w.ID, backend.LogOptions{})
}

// exited waits until a workload has ended.
func (r *rig) exited(id string) backend.Workload {
	r.Helper()
	var w backend.Workload
	r.until("the workload has ended", func() bool {
		var err error
		if w, err = r.Inspect(r.ctx, id); err != nil {
			r.Fatalf("inspect: %v", err)
		}
		return w.Phase == backend.Exited
	})
	return w
}

// until asks again and again, with a timer and not a sleep, so that the test's end ends it.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			r.Fatalf("waited %s and still not: %s", patience, what)
		case <-r.ctx.Done():
			r.Fatalf("%v before %s", r.ctx.Err(), what)
		}
	}
}

func (r *rig) log(id string, opts backend.LogOptions) string {
	r.Helper()
	log, err := r.Logs(r.ctx, id, opts)
	if err != nil {
		r.Fatalf("logs: %v", err)
	}
	defer func() { _ = log.Close() }()
	var out bytes.Buffer
	if _, err := io.Copy(&out, log); err != nil {
		r.Fatalf("logs: %v", err)
	}
	return out.String()
}

// says waits until the log holds text.
func (r *rig) says(id, text string) {
	r.Helper()
	r.until("the log says "+text, func() bool { return strings.Contains(r.log(id, backend.LogOptions{}), text) })
}

// listed is the workloads of the host by ID.
func (r *rig) listed() map[string]backend.Workload {
	r.Helper()
	all, err := r.List(r.ctx)
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	out := map[string]backend.Workload{}
	for _, w := range all {
		out[w.ID] = w
	}
	return out
}
