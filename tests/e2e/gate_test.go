package e2e

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// gate holds the first container that is to be made until it is opened.
type gate struct {
	once    sync.Once
	at, go_ chan struct{}
}

func newGate() *gate { return &gate{at: make(chan struct{}), go_: make(chan struct{})} }

func (g *gate) backend(b *podman.Backend) backend.Backend { return gated{b, g} }

func (g *gate) open() { close(g.go_) }

func (g *gate) reached(t *testing.T) {
	t.Helper()
	select {
	case <-g.at:
	case <-time.After(patience):
		t.Fatal("no container was asked for")
	}
}

type gated struct {
	*podman.Backend
	g *gate
}

func (b gated) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	b.g.once.Do(func() { close(b.g.at) })
	select {
	case <-b.g.go_:
	case <-ctx.Done():
		return backend.Workload{}, ctx.Err()
	}
	return b.Backend.Create(ctx, spec)
}

// dropAll loses every delivery.
func dropAll(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Drop }

// dropFor loses every delivery about jobs of that name.
func dropFor(name string) func(simgithub.DeliveryRecord) simgithub.DeliveryAction {
	return func(d simgithub.DeliveryRecord) simgithub.DeliveryAction {
		if bytes.Contains(d.Body, []byte(`"name":"`+name+`"`)) {
			return simgithub.Drop
		}
		return simgithub.Deliver
	}
}
