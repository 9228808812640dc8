package backendtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Images of sidecars that LoadDaemons makes.
const (
	DaemonImage = "localhost/zoomies-test-daemon:latest"
	SilentImage = "localhost/zoomies-test-silent:latest"
	BrokenImage = "localhost/zoomies-test-broken:latest"
)

// LoadDaemons builds the fake daemon and loads the three sidecar images.
func (e *EngineFixture) LoadDaemons(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "zoomies-fakedaemon-")
	if err != nil {
		return fmt.Errorf("cannot build the fake daemon: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "fakedaemon")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/zoomies-fleet/zoomies/agent/backend/backendtest/fakedaemon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // static: its image has no C library
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the fake daemon: %w: %s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot build the fake daemon: %w", err)
	}
	busybox, err := BusyboxFiles()
	if err != nil {
		return err
	}
	config := v1.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"/bin/sh"}}
	for image, daemon := range map[string]File{
		DaemonImage: {Data: program},
		SilentImage: {Data: []byte("#!/bin/sh\nexec sleep 1000\n")},
		BrokenImage: {Data: []byte("#!/bin/sh\necho no storage driver works here >&2\nexit 9\n")},
	} {
		files := busybox
		for _, name := range []string{"bin/dockerd", "bin/podman"} {
			files = append(files, File{Path: name, Mode: 0o755, Data: daemon.Data})
		}
		if err := e.LoadImage(ctx, image, config, files); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) withDaemon(script, kind, image string) backend.Spec {
	spec := r.spec(script)
	spec.Daemon = &backend.Daemon{Kind: kind, Image: image, Wait: patience}
	return spec
}

func testDaemon(t *testing.T, h Harness) {
	r := start(t, h)
	for _, kind := range []string{backend.DaemonDocker, backend.DaemonPodman} {
		// The socket is there from the runner's first instruction on, is open to its user, and
		// what it writes to the work directory the daemon sees at the same path.
		spec := r.withDaemon(`test -S ${DOCKER_HOST#unix://} || exit 3
[ $(stat -c %a ${DOCKER_HOST#unix://}) = 666 ] || exit 4
echo hello >`+backend.WorkDir+`/from-runner || exit 5
[ "$(cat `+backend.WorkDir+`/daemon)" = here ] || exit 6
trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done`, kind, h.DaemonImage)
		w := r.create(spec)
		r.says(w.ID, "ready")
		if w.Role != backend.RoleRunner {
			t.Errorf("%s: create returned %+v", kind, w)
		}
		var sidecar backend.Workload
		all := r.listed()
		for _, other := range all {
			if other.Role == backend.RoleDaemon {
				sidecar = other
			}
		}
		if len(all) != 2 || sidecar.Phase != backend.Running || sidecar.RunnerID != spec.RunnerID {
			t.Fatalf("%s: listed %+v", kind, all)
		}
		r.says(sidecar.ID, "the runner says hello")
		if err := r.Stop(r.ctx, w.ID, patience); err != nil {
			t.Fatal(err)
		}
		if err := r.Remove(r.ctx, w.ID); err != nil {
			t.Fatal(err)
		}
		if left := r.listed(); len(left) != 0 {
			t.Errorf("%s: left %v", kind, left)
		}
	}
}

func testSilentDaemon(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.withDaemon(sleeper, backend.DaemonDocker, h.SilentImage)
	spec.Daemon.Wait = 2 * time.Second
	began := time.Now()
	_, err := r.Create(r.ctx, spec)
	if err == nil || !strings.Contains(err.Error(), "never answered within 2s") {
		t.Errorf("create: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second+backend.ProbeLimit+15*time.Second {
		t.Errorf("the wait took %s", took)
	}
	if left := r.listed(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func testBrokenDaemon(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.withDaemon(sleeper, backend.DaemonDocker, h.BrokenImage)
	_, err := r.Create(r.ctx, spec)
	if err == nil || !strings.Contains(err.Error(), "code 9") || !strings.Contains(err.Error(), "no storage driver") {
		t.Errorf("create: %v", err)
	}
	if left := r.listed(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A45: whatever part is gone already (a reboot, somebody's prune), nothing of it stays.
func testHalfPair(t *testing.T, h Harness) {
	r := start(t, h)
	for name, take := range map[string]func(runner, sidecar string) (remove string){
		"nothing is gone, removed by the sidecar": func(_, sidecar string) string { return sidecar },
		"the runner is gone":                      func(runner, _ string) string { h.Delete(t, runner); return runner },
		"both are gone": func(runner, sidecar string) string {
			h.Delete(t, runner)
			h.Delete(t, sidecar)
			return runner
		},
		"both are gone and forgotten": func(runner, sidecar string) string {
			h.Delete(t, runner)
			h.Delete(t, sidecar)
			r.Backend = h.New(t, r.host)
			return runner
		},
	} {
		spec := r.withDaemon(sleeper, backend.DaemonDocker, h.DaemonImage)
		w := r.create(spec)
		sidecar := ""
		for id, other := range r.listed() {
			if other.Role == backend.RoleDaemon {
				sidecar = id
			}
		}
		id := take(w.ID, sidecar)
		for range 2 {
			if err := r.Remove(r.ctx, id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left := r.listed(); len(left) != 0 {
			t.Errorf("%s, and left are %v", name, left)
		}
		if left := h.named(t, spec.Name); len(left) != 0 {
			t.Errorf("%s, and left are %v", name, left)
		}
	}
}

// A removal that finds nothing sweeps up volumes without a container: its own host's only.
func testSweepSparesOthers(t *testing.T, h Harness) {
	r, other := start(t, h), start(t, h)
	w := r.create(r.withDaemon(sleeper, backend.DaemonDocker, h.DaemonImage))
	before := len(h.named(t, w.Name))
	if err := other.Remove(other.ctx, strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(r.ctx, strings.Repeat("0", 64)); err != nil { // its own are in use
		t.Fatal(err)
	}
	if after := len(h.named(t, w.Name)); after != before || before != 6 {
		t.Errorf("of %d parts of the pair %d are left", before, after)
	}
	if all := r.listed(); len(all) != 2 || all[w.ID].Phase != backend.Running {
		t.Errorf("after the sweep: %v", all)
	}
}

// named are the containers and volumes that belong to the workload of that name.
func (h Harness) named(t *testing.T, name string) []string {
	t.Helper()
	var out []string
	for _, left := range h.Leftovers(t) {
		if strings.HasPrefix(left, name) {
			out = append(out, left)
		}
	}
	return out
}
