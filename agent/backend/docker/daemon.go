package docker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
	"github.com/zoomies-fleet/zoomies/agent/backend/sidecar"
)

// startDaemon makes the volumes and the sidecar and waits until its daemon answers. What it
// made is in made, also when it fails.
func (b *Backend) startDaemon(ctx context.Context, spec backend.Spec, f features, made *made) (string, error) {
	socketDir := ""
	for _, name := range []string{spec.WorkVolume(), spec.DataVolume(), spec.SocketVolume()} {
		dir, err := b.makeVolume(ctx, name, spec)
		if err != nil {
			return "", err
		}
		made.volumes = append(made.volumes, name)
		socketDir = dir
	}
	options, err := daemonOptions(spec, f)
	if err != nil {
		return "", err
	}
	if spec.Policy == backend.PullAlways {
		if err := b.pull(ctx, options.Config.Image); err != nil {
			return "", err
		}
	}
	id, err := b.make(ctx, options, spec.Policy)
	if err != nil {
		return "", err
	}
	made.containers = append(made.containers, id)
	if err := b.start(ctx, id); err != nil {
		return "", err
	}
	err = sidecar.Wait(ctx, sidecar.Options{
		Dir:   socketDir,
		Kind:  spec.Daemon.Kind,
		Limit: spec.Daemon.WaitLimit(),
		Exec:  func(ctx context.Context, argv ...string) error { return b.exec(ctx, id, argv...) },
		Alive: func(ctx context.Context) error { return b.daemonAlive(ctx, id) },
	})
	if err != nil {
		return "", fmt.Errorf("cannot use the %s daemon for %s: %w", spec.Daemon.Kind, spec.Name, err)
	}
	return id, nil
}

// makeVolume returns where the volume is on the engine's machine. Docker answers with the one
// that exists when there is one: no container claims the runner, so that is left of an attempt
// that was cut off, and goes first.
func (b *Backend) makeVolume(ctx context.Context, name string, spec backend.Spec) (string, error) {
	ctx, done := engine.Settle(ctx, engine.SettleLimit)
	defer done()
	if err := b.removeVolume(ctx, name); err != nil {
		return "", err
	}
	made, err := b.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: spec.Labels(backend.RoleDaemon)})
	if err != nil {
		return "", fault("make volume "+name, err)
	}
	return made.Volume.Mountpoint, nil
}

// daemonAlive says why a sidecar ended, with the end of its log.
func (b *Backend) daemonAlive(ctx context.Context, id string) error {
	data, err := b.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return fault("look at the daemon", err)
	}
	if phase(data.Container.State.Status) == backend.Running {
		return nil
	}
	ended := fmt.Errorf("it ended with code %d", data.Container.State.ExitCode)
	if log, err := b.Logs(ctx, id, backend.LogOptions{Tail: 5}); err == nil {
		defer func() { _ = log.Close() }()
		if text, err := io.ReadAll(io.LimitReader(log, 4<<10)); err == nil && len(text) > 0 {
			return fmt.Errorf("%w: %s", ended, strings.TrimSpace(string(text)))
		}
	}
	return ended
}

// exec runs argv in a container and is nil when it ended with 0.
func (b *Backend) exec(ctx context.Context, id string, argv ...string) error {
	doing := "run " + argv[0] + " in the daemon"
	session, err := b.api.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: argv})
	if err != nil {
		return fault(doing, err)
	}
	if _, err := b.api.ExecStart(ctx, session.ID, client.ExecStartOptions{Detach: true}); err != nil {
		return fault(doing, err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := b.api.ExecInspect(ctx, session.ID, client.ExecInspectOptions{})
		switch {
		case err != nil:
			return fault(doing, err)
		case !state.Running && state.ExitCode != 0:
			return fmt.Errorf("%s ended with code %d", argv[0], state.ExitCode)
		case !state.Running:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
