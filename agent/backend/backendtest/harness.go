package backendtest

import (
	"context"
	"strings"
	"testing"
)

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
