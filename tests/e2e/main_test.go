// Package e2e runs whole fleets against real Podman and the simulated GitHub.
package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
)

// engine is one Podman service for every test of this package. Each fleet sees only its own host's containers in it.
var engine *podman.Service

// imageFile is built by `make build`.
const imageFile = "../../bin/demo-image.tar"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zoomies-e2e-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	if engine, err = demo.StartEngine(ctx, dir, testLog()); err != nil {
		return fail(err)
	}
	defer func() {
		if err := engine.Discard(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "cannot discard the engine:", err)
		}
	}()
	if err := demo.LoadImage(ctx, engine.Socket(), imageFile); err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "cannot set up the end-to-end tests (run `make deps build` first):", err)
	return 1
}

// testLog writes the logs of all parts where ZOOMIES_TEST_LOG says, which helps to see why a fleet did what it did.
func testLog() *slog.Logger {
	file := os.Getenv("ZOOMIES_TEST_LOG")
	if file == "" {
		return slog.New(slog.DiscardHandler)
	}
	w, err := os.OpenFile(filepath.Clean(file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot open the test log:", err)
		os.Exit(1)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
