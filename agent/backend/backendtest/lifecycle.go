package backendtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func testLifecycle(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec(sleeper)
	w := r.create(spec)
	if w.Phase != backend.Running || w.Role != backend.RoleRunner || w.Name != spec.Name || w.RunnerID != spec.RunnerID || w.PoolID != spec.PoolID {
		t.Errorf("create returned %+v", w)
	}
	if w.CreatedAt.IsZero() || w.StartedAt.IsZero() || !w.EndedAt.IsZero() {
		t.Errorf("create returned times %+v", w)
	}
	seen, err := r.Inspect(r.ctx, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.listed()[w.ID]; got.Phase != backend.Running || got.RunnerID != seen.RunnerID || got.Name != seen.Name || got.Role != seen.Role || got.PoolID != seen.PoolID {
		t.Errorf("listed %+v, inspected %+v", got, seen)
	}
	if err := r.Stop(r.ctx, w.ID, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	ended := r.exited(w.ID)
	if ended.EndedAt.IsZero() || ended.EndedAt.Before(ended.StartedAt) {
		t.Errorf("ended with times %+v", ended)
	}
	if err := r.Remove(r.ctx, w.ID); err != nil {
		t.Fatal(err)
	}
	if left := r.listed(); len(left) != 0 {
		t.Errorf("still listed: %v", left)
	}
}

func testProbe(t *testing.T, h Harness) {
	r := start(t, h)
	info, err := r.Probe(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.Version == "" || info.OS != "linux" || info.Arch == "" || info.CPUs <= 0 || info.MemoryMB <= 0 {
		t.Errorf("probe found %+v", info)
	}
}

func testExitCodes(t *testing.T, h Harness) {
	r := start(t, h)
	for _, code := range []int{0, 1, 69, 137} {
		w, _ := r.run(r.spec(fmt.Sprintf("exit %d", code)))
		if w.ExitCode != code || w.OOMKilled {
			t.Errorf("exit %d was read back as %+v", code, w)
		}
		if got := r.listed()[w.ID]; got.ExitCode != code || got.Phase != backend.Exited {
			t.Errorf("exit %d was listed as %+v", code, got)
		}
	}
}

func testStopGraceful(t *testing.T, h Harness) {
	r := start(t, h)
	w := r.create(r.spec(sleeper))
	r.says(w.ID, "ready")
	if err := r.Stop(r.ctx, w.ID, patience); err != nil {
		t.Fatal(err)
	}
	got, err := r.Inspect(r.ctx, w.ID)
	if err != nil || got.Phase != backend.Exited || got.ExitCode != 7 {
		t.Errorf("after stop: %+v, %v", got, err)
	}
	if err := r.Stop(r.ctx, w.ID, time.Second); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func testStopKills(t *testing.T, h Harness) {
	r := start(t, h)
	w := r.create(r.spec(`trap '' TERM; echo ready; while :; do sleep 0.1; done`))
	r.says(w.ID, "ready")
	began := time.Now()
	if err := r.Stop(r.ctx, w.ID, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("it was killed after %s, before its grace", took)
	}
	got, err := r.Inspect(r.ctx, w.ID)
	if err != nil || got.Phase != backend.Exited || got.ExitCode != 137 || got.OOMKilled {
		t.Errorf("after stop: %+v, %v", got, err)
	}
}

func testRemove(t *testing.T, h Harness) {
	r := start(t, h)
	w := r.create(r.spec(`trap '' TERM; while :; do sleep 0.1; done`))
	for range 3 { // running, gone, gone
		if err := r.Remove(r.ctx, w.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Inspect(r.ctx, w.ID); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("inspect after remove: %v", err)
	}
}

func testExists(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec(sleeper)
	w := r.create(spec)
	if _, err := r.Create(r.ctx, spec); !errors.Is(err, backend.ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	named := r.spec(sleeper)
	named.Name = spec.Name
	if _, err := r.Create(r.ctx, named); !errors.Is(err, backend.ErrExists) {
		t.Errorf("another runner of the same name: %v", err)
	}
	renamed := r.spec(sleeper)
	renamed.RunnerID = spec.RunnerID
	if _, err := r.Create(r.ctx, renamed); !errors.Is(err, backend.ErrExists) {
		t.Errorf("the same runner by another name: %v", err)
	}
	if all := r.listed(); len(all) != 1 || all[w.ID].Phase != backend.Running {
		t.Errorf("the first must be untouched and alone: %v", all)
	}
	// Two at the same moment: one wins.
	spec = r.spec(sleeper)
	wins := make(chan error, 2)
	for range 2 {
		go func() { _, err := r.Create(r.ctx, spec); wins <- err }()
	}
	if a, b := <-wins, <-wins; (a == nil) == (b == nil) || (!errors.Is(a, backend.ErrExists) && !errors.Is(b, backend.ErrExists)) {
		t.Errorf("of two at once: %v and %v", a, b)
	}
}

func testHalf(t *testing.T, h Harness) {
	if h.Half == nil {
		t.Skip("this backend has no moment between create and start")
	}
	r := start(t, h)
	spec := r.spec(sleeper)
	h.Half(t, r.Backend, spec)
	restarted := h.New(t, r.host)
	all, err := restarted.List(r.ctx)
	if err != nil || len(all) != 1 || all[0].Phase != backend.Created || all[0].RunnerID != spec.RunnerID {
		t.Fatalf("after the crash: %+v, %v", all, err)
	}
	if _, err := restarted.Create(r.ctx, spec); !errors.Is(err, backend.ErrExists) {
		t.Errorf("create over what the crash left: %v", err)
	}
	if err := restarted.Remove(r.ctx, all[0].ID); err != nil {
		t.Fatal(err)
	}
	if w, err := restarted.Create(r.ctx, spec); err != nil || w.Phase != backend.Running {
		t.Errorf("create after the clean-up: %+v, %v", w, err)
	}
}

func testAdoption(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec("while [ ! -e /tmp/" + r.host + " ]; do sleep 0.1; [ $((n=n+1)) -gt 15 ] && exit 42; done")
	w := r.create(spec)
	restarted := &rig{Backend: h.New(t, r.host), T: t, h: h, ctx: r.ctx, host: r.host}
	if got := restarted.listed()[w.ID]; got.Phase != backend.Running || got.RunnerID != spec.RunnerID || got.StartedAt.IsZero() {
		t.Fatalf("the restarted agent sees %+v", got)
	}
	if got := restarted.exited(w.ID); got.ExitCode != 42 {
		t.Errorf("the restarted agent reads %+v", got)
	}
}

func testParallel(t *testing.T, h Harness) {
	r := start(t, h)
	var all errgroup.Group
	for range 10 {
		all.Go(func() error { _, err := r.Create(r.ctx, r.spec(sleeper)); return err })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, w := range r.listed() {
		if w.Phase == backend.Running {
			running++
		}
	}
	if running != 10 {
		t.Errorf("%d of 10 run", running)
	}
}

func testUnknown(t *testing.T, h Harness) {
	r := start(t, h)
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if _, err := r.Inspect(r.ctx, id); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("inspect: %v", err)
	}
	if err := r.Stop(r.ctx, id, time.Second); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("stop: %v", err)
	}
	if _, err := r.Logs(r.ctx, id, backend.LogOptions{}); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("logs: %v", err)
	}
	if _, err := r.Stats(r.ctx, id); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("stats: %v", err)
	}
	if err := r.Remove(r.ctx, id); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func testInvalid(t *testing.T, h Harness) {
	r := start(t, h)
	for name, spoil := range map[string]func(*backend.Spec){
		"no name":        func(s *backend.Spec) { s.Name = "" },
		"no runner":      func(s *backend.Spec) { s.RunnerID = "" },
		"negative limit": func(s *backend.Spec) { s.MemoryMB = -1 },
		"odd policy":     func(s *backend.Spec) { s.Policy = "sometimes" },
		"NUL in value":   func(s *backend.Spec) { s.Env = map[string]string{"A": "b\x00c"} },
		"another host":   func(s *backend.Spec) { s.HostID = "hst_other" },
		"odd daemon":     func(s *backend.Spec) { s.Daemon = &backend.Daemon{Kind: "lxc", Image: "x"} },
		"odd network":    func(s *backend.Spec) { s.Network = "container:abc" },
	} {
		spec := r.spec(sleeper)
		spoil(&spec)
		if _, err := r.Create(r.ctx, spec); err == nil || errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := r.listed(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func testMissingImage(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec("true")
	spec.Image = "localhost/zoomies-nowhere:latest"
	if _, err := r.Create(r.ctx, spec); !errors.Is(err, backend.ErrImage) || errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if err := r.Prepare(r.ctx, spec.Image, backend.PullNever); !errors.Is(err, backend.ErrImage) {
		t.Errorf("prepare: %v", err)
	}
	if err := r.Prepare(r.ctx, h.Image, backend.PullMissing); err != nil {
		t.Errorf("prepare what is there: %v", err)
	}
	if left := r.listed(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A create whose caller goes away at any moment has either not begun or cleans up.
func testCancelled(t *testing.T, h Harness) {
	r := start(t, h)
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(r.ctx, after)
		w, err := r.Create(ctx, r.spec(sleeper))
		cancel()
		switch {
		case err == nil:
			if rm := r.Remove(r.ctx, w.ID); rm != nil {
				t.Error(rm)
			}
		case errors.Is(err, backend.ErrUnavailable):
			t.Errorf("given up after %s: %v: an impatient caller does not make an engine unavailable", after, err)
		}
		if left := r.listed(); len(left) != 0 {
			t.Errorf("given up after %s, left: %v", after, left)
		}
	}
}

// Some runtimes find out only after the start that there is nothing to run.
func testBadCommand(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec("")
	spec.Command = []string{"/no/such/program"}
	w, err := r.Create(r.ctx, spec)
	switch {
	case errors.Is(err, backend.ErrUnavailable):
		t.Errorf("create: %v", err)
	case err == nil:
		if w = r.exited(w.ID); w.ExitCode == 0 {
			t.Errorf("nothing ran and it ended well: %+v", w)
		}
	default:
		if left := r.listed(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// A44: one-job runners must not fill the disk, however many there were.
func testFlat(t *testing.T, h Harness) {
	r := start(t, h)
	for range 20 {
		w, _ := r.run(r.spec("echo done"))
		if err := r.Remove(r.ctx, w.ID); err != nil {
			t.Fatal(err)
		}
	}
	if left := h.Leftovers(t); len(left) > 0 {
		t.Errorf("left after twenty: %v", left)
	}
}

// An engine that is gone says nothing about its workloads, which live on.
func testOutage(t *testing.T, h Harness) {
	r := start(t, h)
	w := r.create(r.spec(sleeper))
	events, err := r.Watch(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.Down(t)
	r.until("the event stream has ended", func() bool {
		select {
		case _, open := <-events:
			return !open
		default:
			return false
		}
	})
	for name, call := range map[string]func() error{
		"probe":   func() error { _, err := r.Probe(r.ctx); return err },
		"create":  func() error { _, err := r.Create(r.ctx, r.spec("true")); return err },
		"list":    func() error { _, err := r.List(r.ctx); return err },
		"inspect": func() error { _, err := r.Inspect(r.ctx, w.ID); return err },
		"stop":    func() error { return r.Stop(r.ctx, w.ID, 0) },
		"remove":  func() error { return r.Remove(r.ctx, w.ID) },
		"logs":    func() error { _, err := r.Logs(r.ctx, w.ID, backend.LogOptions{}); return err },
		"watch":   func() error { _, err := r.Watch(r.ctx); return err },
		"prepare": func() error { return r.Prepare(r.ctx, h.Image, backend.PullAlways) },
	} {
		if err := call(); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s while the engine is gone: %v", name, err)
		}
	}
	h.Up(t)
	if got := r.listed()[w.ID]; got.Phase != backend.Running {
		t.Errorf("after the outage: %+v", got)
	}
	if _, err := r.Create(r.ctx, r.spec("true")); err != nil {
		t.Errorf("create after the outage: %v", err)
	}
}
