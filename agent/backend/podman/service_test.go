package podman_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// A service of its own is closed to others, comes back when it dies, and its containers do
// not care.
func TestServiceIsSupervised(t *testing.T) {
	e := backendtest.Engine(t)
	for path, want := range map[string]os.FileMode{e.Socket: 0o600, filepath.Dir(e.Socket): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if args := e.Service.Args(); !slices.Contains(args, "--root") || !slices.Contains(args, "--runroot") {
		t.Errorf("the plain command would use other storage: %v", args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := podman.New(podman.Options{Socket: e.Socket})
	w, err := b.Create(ctx, backend.Spec{Name: "survivor", RunnerID: "run_1", Image: e.Image, Network: "none", Command: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	before := e.Service.PID()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := b.Inspect(ctx, w.ID)
		if err == nil && e.Service.PID() != before {
			if got.Phase != backend.Running {
				t.Errorf("after the service's death: %+v", got)
			}
			break
		}
		if err != nil && !errors.Is(err, backend.ErrUnavailable) {
			t.Fatalf("while the service is away: %v", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the service did not come back")
		}
	}
	// A second one does not take the place of one that lives.
	if _, err := podman.StartService(ctx, podman.ServiceOptions{Socket: e.Socket}); err == nil {
		t.Error("two services on one socket")
	}
}

func TestServiceThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := podman.StartService(t.Context(), podman.ServiceOptions{
		Socket: filepath.Join(t.TempDir(), "s"), Podman: "/bin/false", Wait: 5 * time.Second,
	})
	if err == nil {
		t.Error("a program that is not Podman was started as one")
	}
}

func TestDiscoverPrefersTheUsersOwn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := os.MkdirAll(filepath.Join(dir, "podman"), 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "podman", "podman.sock")
	if err := os.Symlink(fixture.Socket, socket); err != nil {
		t.Fatal(err)
	}
	if got, err := podman.Discover(t.Context()); got != socket || err != nil {
		t.Errorf("discovered %q, %v", got, err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if got, err := podman.Discover(t.Context()); err == nil {
		t.Logf("this machine has a Podman of its own at %s", got)
	} else if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("with none running: %v", err)
	}
}
