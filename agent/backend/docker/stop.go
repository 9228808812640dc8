package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stop asks the workload to end and kills it after grace.
func (b *Backend) Stop(ctx context.Context, id string, grace time.Duration) error {
	data, err := b.ours(ctx, id)
	if err != nil {
		return err
	}
	if phase(data.State.Status) != backend.Running {
		return nil
	}
	signal := data.Config.StopSignal
	if signal == "" {
		signal = "SIGTERM"
	}
	return engine.Stop(ctx, calls{b}, id, signal, grace)
}

func (c calls) Signal(ctx context.Context, id, signal string) (bool, error) {
	_, err := c.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: signal})
	switch {
	case gone(err):
		return true, nil
	case stopped(err):
		return false, nil
	}
	return false, fault("signal container "+engine.Short(id), err)
}

// Wait looks again and again where the engine is a compatible Podman, whose own wait may answer long after the end.
func (c calls) Wait(ctx context.Context, id string) error {
	if found := c.found.Load(); found == nil || found.podman {
		return engine.Look(ctx, func() (bool, error) { return c.ended(ctx, id) })
	}
	wait := c.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		if gone(err) {
			return nil
		}
		return fault("wait for container "+engine.Short(id), err)
	}
}

func (c calls) ended(ctx context.Context, id string) (bool, error) {
	data, err := engine.Again(engine.Fleeting, func() (client.ContainerInspectResult, error) {
		return c.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	})
	if gone(err) {
		return true, nil
	}
	if err != nil {
		return false, fault("wait for container "+engine.Short(id), err)
	}
	return data.Container.State == nil || phase(data.Container.State.Status) != backend.Running, nil
}
