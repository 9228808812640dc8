// Package backendtest holds the suite that every backend must pass, and a Podman of its own
// for the tests that need real containers. It is for tests only.
package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// EngineFixture is a Podman with storage of its own and the test image loaded.
type EngineFixture struct {
	Socket  string // path of its socket; it speaks libpod's API and Docker's
	Image   string // TestImage
	Args    []string
	Env     []string
	Service *podman.Service

	dir string
}

// Engine starts a Podman that ends with the test. It fails the test, rather than skipping it,
// when Podman is not installed.
func Engine(tb testing.TB) *EngineFixture {
	tb.Helper()
	e, err := StartEngine(context.Background(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// Main starts one Podman for a whole test binary, from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, func(e *backendtest.EngineFixture) { engine = e })) }
func Main(m *testing.M, use func(*EngineFixture)) int {
	e, err := StartEngine(context.Background(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(e)
	code := m.Run()
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// StartEngine starts a Podman in a directory of its own. Close ends it.
func StartEngine(ctx context.Context, log *slog.Logger) (*EngineFixture, error) {
	if _, err := exec.LookPath("podman"); err != nil {
		return nil, errors.New("these tests run real containers and Podman is not installed: run `make deps`")
	}
	// Not the test's own directory: its path may be longer than a socket's may be.
	dir, err := os.MkdirTemp("", "zoomies-engine-")
	if err != nil {
		return nil, fmt.Errorf("cannot start a test engine: %w", err)
	}
	e := &EngineFixture{Image: TestImage, Socket: filepath.Join(dir, "podman.sock"), dir: dir}
	if e.Service, err = podman.StartService(ctx, e.options(log)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e.Args, e.Env = e.Service.Args(), e.Service.Env()
	files, err := BusyboxFiles()
	if err == nil {
		err = e.LoadImage(ctx, TestImage, v1.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"/bin/sh"}}, files)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *EngineFixture) options(log *slog.Logger) podman.ServiceOptions {
	return podman.ServiceOptions{
		Root: filepath.Join(e.dir, "root"), RunRoot: filepath.Join(e.dir, "run"), Socket: e.Socket, Logger: log,
	}
}

// LoadImage makes an image of files and loads it.
func (e *EngineFixture) LoadImage(ctx context.Context, ref string, config v1.Config, files []File) error {
	var archive bytes.Buffer
	if err := WriteImage(&archive, ref, config, files); err != nil {
		return err
	}
	_, err := podman.New(podman.Options{Socket: e.Socket}).Load(ctx, &archive)
	return err
}

// Kill ends the service and keeps it down until Revive. Its containers live on.
func (e *EngineFixture) Kill() error { return e.Service.Close() }

// Revive starts the service again on the same storage and socket.
func (e *EngineFixture) Revive(ctx context.Context) error {
	s, err := podman.StartService(ctx, e.options(nil))
	if err != nil {
		return err
	}
	e.Service = s
	return nil
}

// Podman runs the podman command on the engine's storage, without going through the service.
func (e *EngineFixture) Podman(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "podman", append(append([]string{}, e.Args...), args...)...)
	cmd.Env = e.Env
	cmd.WaitDelay = 5 * time.Second // what it leaves behind may hold its output open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Close removes every container, ends the service and deletes its storage.
func (e *EngineFixture) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return errors.Join(e.Service.Discard(ctx), os.RemoveAll(e.dir))
}

// StorageDir is where its images and containers are; RunDir what lives until the machine restarts.
func (e *EngineFixture) StorageDir() string { return filepath.Join(e.dir, "root") }

// RunDir is where its state of the moment is.
func (e *EngineFixture) RunDir() string { return filepath.Join(e.dir, "run") }
