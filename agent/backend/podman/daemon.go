package podman

import (
	"context"
	"errors"

	"github.com/containers/podman/v5/pkg/api/handlers"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/docker/docker/api/types/container"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

func (m maker) Daemon(spec backend.Spec) (engine.Request, error) {
	s, err := daemonSpec(spec, m.can)
	return request(s), err
}

// MakeVolume removes only what Podman says is in the way.
func (c calls) MakeVolume(ctx context.Context, name string, labels map[string]string) (string, error) {
	options := types.VolumeCreateOptions{Name: name, Label: labels, Labels: labels}
	v, err := volumes.Create(ctx, options, nil)
	if err = fault("make volume "+name, err); errors.Is(err, backend.ErrExists) {
		if err := c.RemoveVolume(ctx, name); err != nil {
			return "", err
		}
		v, err = volumes.Create(ctx, options, nil)
		err = fault("make volume "+name, err)
	}
	if err != nil {
		return "", err
	}
	return v.Mountpoint, nil
}

func (c calls) State(ctx context.Context, id string) (engine.State, error) {
	data, err := containers.Inspect(ctx, id, nil)
	if err != nil {
		return engine.State{}, fault("look at the daemon", err)
	}
	return engine.State{Running: phase(data.State.Status) == backend.Running, ExitCode: int(data.State.ExitCode)}, nil
}

func (c calls) Exec(ctx context.Context, id string, argv []string) (string, error) {
	session, err := containers.ExecCreate(ctx, id, execConfig(argv))
	if err == nil {
		err = containers.ExecStart(ctx, session, nil)
	}
	return session, fault("run "+argv[0]+" in the daemon", err)
}

func (c calls) ExecState(ctx context.Context, session string, argv []string) (engine.State, error) {
	state, err := containers.ExecInspect(ctx, session, nil)
	if err != nil {
		return engine.State{}, fault("run "+argv[0]+" in the daemon", err)
	}
	return engine.State{Running: state.Running, ExitCode: state.ExitCode}, nil
}

func execConfig(argv []string) *handlers.ExecCreateConfig {
	return &handlers.ExecCreateConfig{ExecOptions: container.ExecOptions{Cmd: argv}}
}
