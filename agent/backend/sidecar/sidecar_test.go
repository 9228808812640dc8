package sidecar

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func alive(context.Context) error { return nil }

func noExec(context.Context, ...string) error { return errors.New("no exec") }

// serve answers /_ping with status on the socket in dir.
func serve(t *testing.T, dir string, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("unix", backend.SocketIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

func TestAnAnsweringDaemonIsOpenedToTheRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := 0
	serve(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 { // it listens before it can serve
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.URL.Path != "/_ping" {
			t.Errorf("asked for %s", r.URL.Path)
		}
	})
	if err := Wait(t.Context(), Options{Dir: dir, Limit: time.Minute, Alive: alive, Exec: noExec}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(backend.SocketIn(dir))
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
}

func TestASilentDaemonIsGivenUpOn(t *testing.T) {
	t.Parallel()
	err := Wait(t.Context(), Options{Dir: t.TempDir(), Limit: 200 * time.Millisecond, Alive: alive, Exec: noExec})
	if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "docker_wait") {
		t.Errorf("it ended with %v", err)
	}
}

func TestADeadDaemonIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dead := errors.New("it ended with code 9")
	began := time.Now()
	err := Wait(t.Context(), Options{Dir: t.TempDir(), Limit: time.Hour, Exec: noExec, Alive: func(context.Context) error { return dead }})
	if !errors.Is(err, dead) || time.Since(began) > time.Minute {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestACallerThatGivesUpIsNotASilentDaemon(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := Wait(ctx, Options{Dir: t.TempDir(), Limit: time.Hour, Alive: alive, Exec: noExec})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrSilent) {
		t.Errorf("it ended with %v", err)
	}
}

// An agent that cannot see the volume (it runs in a container itself) asks from inside.
func TestAnUnseenVolumeIsAskedFromInside(t *testing.T) {
	t.Parallel()
	var ran []string
	err := Wait(t.Context(), Options{
		Dir: filepath.Join(t.TempDir(), "elsewhere"), Limit: time.Minute, Alive: alive, Kind: backend.DaemonPodman,
		Exec: func(_ context.Context, argv ...string) error { ran = append(ran, argv[0]); return nil },
	})
	if err != nil || strings.Join(ran, " ") != "podman chmod" {
		t.Errorf("ran %v, %v", ran, err)
	}
}
