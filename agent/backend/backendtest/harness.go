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
)

// Usage of an engine's storage.
type Usage struct{ Bytes, Files int64 }

// Foreign starts a container that is nobody's, with the plain podman command.
func (e *EngineFixture) Foreign(t *testing.T, labels map[string]string) (id string, runs func() bool) {
	t.Helper()
	args := []string{"run", "--detach", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}
	for key, value := range labels {
		args = append(args, "--label", key+"="+value)
	}
	id, err := e.Podman(t.Context(), append(args, e.Image, "sleep", "1000")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.Podman(context.WithoutCancel(t.Context()), "rm", "--force", "--time", "0", id); err != nil {
			t.Error(err)
		}
	})
	return id, func() bool {
		state, err := e.Podman(t.Context(), "inspect", "--format", "{{.State.Status}}", id)
		if err != nil {
			t.Error(err)
		}
		return state == "running"
	}
}

// Leftovers are the containers and volumes on the engine.
func (e *EngineFixture) Leftovers(t *testing.T) []string {
	t.Helper()
	containers, err := e.Podman(t.Context(), "ps", "--all", "--format", "{{.Names}}={{.State}}={{.ID}}")
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := e.Podman(t.Context(), "volume", "ls", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	return append(strings.Fields(containers), strings.Fields(volumes)...)
}

// Delete removes one container with the plain podman command.
func (e *EngineFixture) Delete(t *testing.T, id string) {
	t.Helper()
	if _, err := e.Podman(t.Context(), "rm", "--force", "--time", "0", id); err != nil {
		t.Fatal(err)
	}
}

// Down ends the service; its containers live on.
func (e *EngineFixture) Down(t *testing.T) {
	t.Helper()
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Up starts it again.
func (e *EngineFixture) Up(t *testing.T) {
	t.Helper()
	if err := e.Revive(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// Usage counts what is in the engine's storage: bytes on disk, and files of any kind. Without root the files of a
// container's users can be read only from inside of the user namespace.
func (e *EngineFixture) Usage(t *testing.T) Usage {
	t.Helper()
	const count = `cd "$1" && du -sxk . | cut -f 1 && find . -xdev | wc -l`
	args := []string{"sh", "-c", count, "sh", filepath.Join(e.dir, "root")}
	var out string
	var err error
	if os.Geteuid() != 0 {
		out, err = e.Podman(t.Context(), append([]string{"unshare"}, args...)...)
	} else {
		var raw []byte
		raw, err = exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
		out = string(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	var u Usage
	if _, err := fmt.Sscan(out, &u.Bytes, &u.Files); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	u.Bytes <<= 10
	return u
}

// Says waits until a container's log holds text.
func (e *EngineFixture) Says(t *testing.T, id, text string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		log, err := e.Podman(t.Context(), "logs", id)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log, text) {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited %s and container %s does not say %q: %s", patience, id, text, log)
		}
	}
}
