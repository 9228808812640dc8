package podman

import (
	"context"
	"fmt"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Create makes and starts a workload in as few calls as the engine allows.
func (b *Backend) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	w, err := b.create(ctx, spec, true)
	if err != nil {
		return backend.Workload{}, fmt.Errorf("cannot create workload %q: %w", spec.Name, err)
	}
	return w, nil
}

// create stops short of starting when start is false, which only a test asks for: it is what
// an agent killed between the two steps leaves behind.
func (b *Backend) create(ctx context.Context, spec backend.Spec, start bool) (backend.Workload, error) {
	spec, end, err := b.runners.Begin(spec)
	if err != nil {
		return backend.Workload{}, err
	}
	defer end()
	ctx, err = b.dial(ctx)
	if err != nil {
		return backend.Workload{}, err
	}
	f, err := b.features(ctx)
	if err != nil {
		return backend.Workload{}, err
	}
	w, err := b.runners.Create(ctx, maker{calls{b}, f}, spec, start)
	if err != nil || !start {
		return w, err
	}
	if mode, err := network(spec.Network, f.info.Rootless); err == nil {
		b.steady(ctx, mode, f.info.Rootless)
	}
	return w, nil
}

// calls are the engine's own, as engine wants them. Their contexts are those of dial.
type calls struct{ *Backend }

// maker makes what the engine can run.
type maker struct {
	calls
	can features
}

var _ engine.Maker = maker{}

func (m maker) Runner(spec backend.Spec, sidecar string) (engine.Request, error) {
	s, err := runnerSpec(spec, m.can, sidecar)
	return request(s), err
}

func request(s *specgen.SpecGenerator) engine.Request {
	return engine.Request{Image: s.Image, Make: func(ctx context.Context) (string, error) {
		made, err := containers.CreateWithSpec(ctx, s, nil)
		return made.ID, fault("create container "+s.Name, err)
	}}
}

func (c calls) Start(ctx context.Context, id string) error {
	return fault("start container "+engine.Short(id), containers.Start(ctx, id, nil))
}

func (c calls) Pull(ctx context.Context, image string) error { return c.pull(ctx, image) }
