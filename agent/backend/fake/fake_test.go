package fake_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func spec(runner string) backend.Spec {
	return backend.Spec{Name: "z-" + runner, RunnerID: runner, HostID: "hst_1", Image: "i"}
}

func create(t *testing.T, b *fake.Backend, s backend.Spec) backend.Workload {
	t.Helper()
	w, err := b.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The fake keeps the contract that the agent relies on.
func TestItKeepsTheContract(t *testing.T) {
	t.Parallel()
	b := fake.New("podman", nil)
	ctx := t.Context()
	s := spec("run_1")
	s.Daemon = &backend.Daemon{Kind: "docker"}
	w := create(t, b, s)
	if w.Phase != backend.Running || w.RunnerID != "run_1" || w.Role != backend.RoleRunner || w.StartedAt.IsZero() {
		t.Errorf("created %+v", w)
	}
	for what, twin := range map[string]backend.Spec{
		"of the same runner": {Name: "other", RunnerID: "run_1"}, "of the same name": {Name: "z-run_1", RunnerID: "run_2"},
	} {
		if _, err := b.Create(ctx, twin); !errors.Is(err, backend.ErrExists) {
			t.Errorf("a second workload %s: %v", what, err)
		}
	}
	if ws, err := b.List(ctx); err != nil || len(ws) != 2 {
		t.Errorf("the list: %v, %v", ws, err)
	}
	if err := b.Stop(ctx, w.ID, time.Second); err != nil {
		t.Error(err)
	}
	if got, err := b.Inspect(ctx, w.ID); err != nil || got.Phase != backend.Exited || got.ExitCode != 143 || got.EndedAt.IsZero() {
		t.Errorf("stopped %+v, %v", got, err)
	}
	if _, err := b.Stats(ctx, w.ID); err == nil {
		t.Error("an ended workload was sampled")
	}
	for range 2 {
		if err := b.Remove(ctx, w.ID); err != nil {
			t.Error(err)
		}
	}
	if b.Count() != 0 {
		t.Error("the sidecar stayed")
	}
	if _, err := b.Inspect(ctx, w.ID); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a removed workload: %v", err)
	}
	if err := b.Stop(ctx, w.ID, 0); err != nil {
		t.Errorf("stopping what is gone: %v", err)
	}
}

func TestAHostSeesItsOwn(t *testing.T) {
	t.Parallel()
	b := fake.New("podman", nil)
	create(t, b, spec("run_1"))
	b.BindHost("hst_2")
	if ws, err := b.List(t.Context()); err != nil || len(ws) != 0 {
		t.Errorf("another host's workloads: %v, %v", ws, err)
	}
}

func TestFaultsAreUsedInOrder(t *testing.T) {
	t.Parallel()
	b := fake.New("podman", nil)
	b.Inject(fake.OpCreate, fake.Fault{Err: backend.ErrImage})
	b.Inject(fake.OpCreate, fake.Fault{Err: backend.ErrUnavailable, Took: true})
	if _, err := b.Create(t.Context(), spec("run_1")); !errors.Is(err, backend.ErrImage) || b.Count() != 0 {
		t.Errorf("the first: %v", err)
	}
	if _, err := b.Create(t.Context(), spec("run_1")); !errors.Is(err, backend.ErrUnavailable) || b.Count() != 1 {
		t.Errorf("a lost answer: %v", err)
	}
	b.Down()
	if _, err := b.Probe(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("down: %v", err)
	}
	b.Mend()
	if _, err := b.Probe(t.Context()); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestEventsAndLogs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := fake.New("podman", time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		events, err := b.Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		w := create(t, b, spec("run_1"))
		if e := <-events; e.Phase != backend.Running || e.RunnerID != "run_1" {
			t.Errorf("event %+v", e)
		}
		b.Print("run_1", "a\nb\nc\n")
		r, err := b.Logs(ctx, w.ID, backend.LogOptions{Follow: true, Tail: 2})
		if err != nil {
			t.Fatal(err)
		}
		b.Stubborn("run_1")
		go func() { _ = b.Stop(ctx, w.ID, time.Minute) }()
		if data, err := io.ReadAll(r); err != nil || string(data) != "b\nc\n" {
			t.Errorf("log %q, %v", data, err)
		}
		if e := <-events; e.Phase != backend.Exited {
			t.Errorf("event %+v", e)
		}
		if got, _ := b.Inspect(ctx, w.ID); got.ExitCode != 137 {
			t.Errorf("killed with %d", got.ExitCode)
		}
		cancel()
		if _, open := <-events; open {
			t.Error("the events outlive their context")
		}
	})
}
