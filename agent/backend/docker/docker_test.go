package docker_test

import (
	"os"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/docker"
)

var podman *backendtest.EngineFixture

func TestMain(m *testing.M) {
	os.Exit(backendtest.Main(m, func(e *backendtest.EngineFixture) { podman = e }))
}

// The engine is Podman's Docker-compatible socket: the wire is Docker's.
func TestDockerIsABackend(t *testing.T) {
	if err := podman.LoadDaemons(t.Context()); err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, backendtest.Harness{
		New: func(t *testing.T, host string) backend.Backend {
			t.Helper()
			b, err := docker.New(docker.Options{Socket: podman.Socket, HostID: host})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			return b
		},
		Image: podman.Image,
		Half: func(t *testing.T, b backend.Backend, spec backend.Spec) {
			t.Helper()
			if err := b.(*docker.Backend).CreateOnly(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		},
		Foreign:     podman.Foreign,
		Delete:      podman.Delete,
		Down:        podman.Down,
		Up:          podman.Up,
		Leftovers:   podman.Leftovers,
		Isolates:    true,
		DaemonImage: backendtest.DaemonImage, SilentImage: backendtest.SilentImage, BrokenImage: backendtest.BrokenImage,
	})
}

// A43: an image in use is never removed.
func TestDockerKeepsImagesInUse(t *testing.T) {
	b, err := docker.New(docker.Options{Socket: podman.Socket, HostID: "hst_images"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	backendtest.RunImages(t, podman, b)
}
