package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Create makes and starts a workload.
func (b *Backend) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	w, err := b.create(ctx, spec, true)
	if err != nil {
		return backend.Workload{}, fmt.Errorf("cannot create workload %q: %w", spec.Name, err)
	}
	return w, nil
}

// create stops short of starting when start is false, which only a test asks for.
func (b *Backend) create(ctx context.Context, spec backend.Spec, start bool) (backend.Workload, error) {
	spec, end, err := b.runners.Begin(spec)
	if err != nil {
		return backend.Workload{}, err
	}
	defer end()
	f, err := b.features(ctx)
	if err != nil {
		return backend.Workload{}, err
	}
	return b.runners.Create(ctx, maker{calls{b}, f}, spec, start)
}

// calls are the engine's own, as engine wants them.
type calls struct{ *Backend }

// maker makes what the engine can run.
type maker struct {
	calls
	can features
}

var _ engine.Maker = maker{}

func (m maker) Runner(spec backend.Spec, sidecar string) (engine.Request, error) {
	options, err := runnerOptions(spec, m.can, sidecar)
	return m.request(options), err
}

func (c calls) request(options client.ContainerCreateOptions) engine.Request {
	return engine.Request{Image: options.Config.Image, Make: func(ctx context.Context) (string, error) {
		made, err := c.api.ContainerCreate(ctx, options)
		return made.ID, fault("create container "+options.Name, err)
	}}
}

func (c calls) Start(ctx context.Context, id string) error {
	_, err := c.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return fault("start container "+engine.Short(id), err)
}

func (c calls) Pull(ctx context.Context, image string) error { return c.pull(ctx, image) }
