package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/api/handlers"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/docker/docker/api/types/container"

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
	s, err := daemonSpec(spec, f)
	if err != nil {
		return "", err
	}
	if spec.Policy == backend.PullAlways {
		if err := b.pull(ctx, s.Image); err != nil {
			return "", err
		}
	}
	id, err := b.make(ctx, s, spec.Policy)
	if err != nil {
		return "", err
	}
	made.containers = append(made.containers, id)
	if err := b.start(ctx, id); err != nil {
		return "", err
	}
	err = sidecar.Wait(ctx, sidecar.Options{
		Dir:   socketDir,
		Limit: spec.Daemon.WaitLimit(),
		Exec:  func(ctx context.Context, argv ...string) error { return b.exec(ctx, id, argv...) },
		Alive: func(ctx context.Context) error { return b.daemonAlive(ctx, id) },
		Kind:  spec.Daemon.Kind,
	})
	if err != nil {
		return "", fmt.Errorf("cannot use the %s daemon for %s: %w", spec.Daemon.Kind, spec.Name, err)
	}
	return id, nil
}

// makeVolume returns where the volume is on the engine's machine. One of that name belongs
// to a workload, or to what is left of one.
func (b *Backend) makeVolume(ctx context.Context, name string, spec backend.Spec) (string, error) {
	ctx, done := engine.Settle(ctx, engine.SettleLimit)
	defer done()
	labels := spec.Labels(backend.RoleDaemon)
	options := types.VolumeCreateOptions{Name: name, Label: labels, Labels: labels}
	v, err := volumes.Create(ctx, options, nil)
	if err = fault("make volume "+name, err); errors.Is(err, backend.ErrExists) {
		// No container claims the runner, so this is left of an attempt that was cut off.
		if err := b.removeVolume(ctx, name); err != nil {
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

// daemonAlive says why a sidecar ended, with the end of its log.
func (b *Backend) daemonAlive(ctx context.Context, id string) error {
	data, err := containers.Inspect(ctx, id, nil)
	if err != nil {
		return fault("look at the daemon", err)
	}
	if phase(data.State.Status) == backend.Running {
		return nil
	}
	ended := fmt.Errorf("it ended with code %d", data.State.ExitCode)
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
	config := execConfig(argv)
	session, err := containers.ExecCreate(ctx, id, config)
	if err != nil {
		return fault("run "+argv[0]+" in the daemon", err)
	}
	if err := containers.ExecStart(ctx, session, nil); err != nil {
		return fault("run "+argv[0]+" in the daemon", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := containers.ExecInspect(ctx, session, nil)
		switch {
		case err != nil:
			return fault("run "+argv[0]+" in the daemon", err)
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

func execConfig(argv []string) *handlers.ExecCreateConfig {
	return &handlers.ExecCreateConfig{ExecOptions: container.ExecOptions{Cmd: argv}}
}
