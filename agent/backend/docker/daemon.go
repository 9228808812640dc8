package docker

import (
	"context"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

func (m maker) Daemon(spec backend.Spec) (engine.Request, error) {
	options, err := daemonOptions(spec, m.can)
	return m.request(options), err
}

// MakeVolume removes first: Docker answers with the volume that exists when there is one.
func (c calls) MakeVolume(ctx context.Context, name string, labels map[string]string) (string, error) {
	if err := c.RemoveVolume(ctx, name); err != nil {
		return "", err
	}
	made, err := c.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels})
	return made.Volume.Mountpoint, fault("make volume "+name, err)
}

func (c calls) State(ctx context.Context, id string) (engine.State, error) {
	data, err := c.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return engine.State{}, fault("look at the daemon", err)
	}
	state := data.Container.State
	return engine.State{Running: phase(state.Status) == backend.Running, ExitCode: state.ExitCode}, nil
}

func (c calls) Exec(ctx context.Context, id string, argv []string) (string, error) {
	session, err := c.api.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: argv})
	if err == nil {
		_, err = c.api.ExecStart(ctx, session.ID, client.ExecStartOptions{Detach: true})
	}
	return session.ID, fault("run "+argv[0]+" in the daemon", err)
}

func (c calls) ExecState(ctx context.Context, session string, argv []string) (engine.State, error) {
	state, err := c.api.ExecInspect(ctx, session, client.ExecInspectOptions{})
	return engine.State{Running: state.Running, ExitCode: state.ExitCode}, fault("run "+argv[0]+" in the daemon", err)
}
