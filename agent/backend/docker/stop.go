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

func (c calls) Wait(ctx context.Context, id string) error {
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
