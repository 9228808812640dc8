package podman

import (
	"context"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stop asks the workload to end and kills it after grace.
func (b *Backend) Stop(ctx context.Context, id string, grace time.Duration) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	data, err := b.ours(ctx, id)
	if err != nil {
		return err
	}
	if phase(data.State.Status) != backend.Running {
		return nil
	}
	return engine.Stop(ctx, calls{b}, id, signal(data.Config.StopSignal), grace)
}

func (c calls) Signal(ctx context.Context, id, signal string) (bool, error) {
	err := containers.Kill(ctx, id, new(containers.KillOptions).WithSignal(signal))
	switch {
	case gone(err):
		return true, nil
	case stopped(err):
		return false, nil
	}
	return false, fault("signal container "+engine.Short(id), err)
}

// Wait looks instead of asking Podman to wait: Podman 4's own wait answers only when its clean-up of the ended container
// has run, or 20 seconds later, and the clean-up is slow on a busy machine.
func (c calls) Wait(ctx context.Context, id string) error {
	return engine.Look(ctx, func() (bool, error) {
		data, err := engine.Again(engine.Fleeting, func() (*define.InspectContainerData, error) { return containers.Inspect(ctx, id, nil) })
		if gone(err) {
			return true, nil
		}
		if err != nil {
			return false, fault("wait for container "+engine.Short(id), err)
		}
		return phase(data.State.Status) != backend.Running, nil
	})
}
