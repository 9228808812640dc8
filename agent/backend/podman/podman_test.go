package podman_test

import (
	"os"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

var fixture *backendtest.EngineFixture

func TestMain(m *testing.M) {
	os.Exit(backendtest.Main(m, func(e *backendtest.EngineFixture) { fixture = e }))
}

func open(host string) *podman.Backend {
	return podman.New(podman.Options{Socket: fixture.Socket, HostID: host})
}

func TestPodmanIsABackend(t *testing.T) {
	if err := fixture.LoadDaemons(t.Context()); err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, backendtest.Harness{
		New:   func(_ *testing.T, host string) backend.Backend { return open(host) },
		Image: fixture.Image,
		Half: func(t *testing.T, b backend.Backend, spec backend.Spec) {
			t.Helper()
			if err := b.(*podman.Backend).CreateOnly(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		},
		Foreign:     fixture.Foreign,
		Delete:      fixture.Delete,
		Down:        fixture.Down,
		Up:          fixture.Up,
		Leftovers:   fixture.Leftovers,
		Isolates:    true,
		DaemonImage: backendtest.DaemonImage, SilentImage: backendtest.SilentImage, BrokenImage: backendtest.BrokenImage,
	})
}

// A43: an image in use is never removed.
func TestPodmanKeepsImagesInUse(t *testing.T) { backendtest.RunImages(t, fixture, open("hst_images")) }
