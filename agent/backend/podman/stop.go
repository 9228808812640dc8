package podman

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stop signals and waits by itself: Podman 4's own stop keeps the container locked for the
// whole grace, and a listing would wait for it.
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
	if grace > 0 {
		ended, err := b.signalAndWait(ctx, id, signal(data.Config.StopSignal), grace)
		if err != nil || ended {
			return err
		}
	}
	ended, err := b.signalAndWait(ctx, id, "KILL", engine.KillLimit)
	if err == nil && !ended {
		return fmt.Errorf("cannot stop container %s: it is still there %s after it was killed", engine.Short(id), engine.KillLimit)
	}
	return err
}

// signalAndWait is true when the container has ended within limit.
func (b *Backend) signalAndWait(ctx context.Context, id, signal string, limit time.Duration) (bool, error) {
	err := containers.Kill(ctx, id, new(containers.KillOptions).WithSignal(signal))
	if gone(err) {
		return true, nil
	}
	if err != nil && !stopped(err) {
		return false, fault("signal container "+engine.Short(id), err)
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = containers.Wait(waiting, id, new(containers.WaitOptions).
		WithCondition([]define.ContainerStatus{define.ContainerStateExited, define.ContainerStateStopped}).
		WithInterval("50ms"))
	switch {
	case err == nil, gone(err):
		return true, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("cannot wait for container %s: %w", engine.Short(id), ctx.Err())
	case waiting.Err() != nil:
		return false, nil
	}
	return false, fault("wait for container "+engine.Short(id), err)
}

// Remove deletes the workload that id belongs to as a whole: runner, sidecar, volumes. When
// the container of that id is gone already, what no container claims any more is swept up.
func (b *Backend) Remove(ctx context.Context, id string) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	all, err := b.list(ctx, nil)
	if err != nil {
		return err
	}
	runner, daemon := "", false
	for _, c := range all {
		if c.ID == id {
			runner = c.Labels[backend.LabelRunner]
		}
	}
	if runner == "" {
		return b.sweep(ctx)
	}
	var errs []error
	for _, role := range []string{backend.RoleRunner, backend.RoleDaemon} { // the runner holds the sidecar's network
		for _, c := range all {
			if c.Labels[backend.LabelRunner] != runner || c.Labels[backend.LabelRole] != role {
				continue
			}
			daemon = daemon || role == backend.RoleDaemon || len(c.Mounts) > 0
			errs = append(errs, b.removeContainer(ctx, c.ID))
		}
	}
	if daemon {
		errs = append(errs, b.removeVolumes(ctx, func(of string) bool { return of == runner }))
	}
	return errors.Join(errs...)
}

// sweep removes volumes of runners that have no container and are not being created.
func (b *Backend) sweep(ctx context.Context) error {
	claimed := b.starts.UnderWay()
	all, err := b.list(ctx, nil)
	if err != nil {
		return err
	}
	for _, c := range all {
		claimed[c.Labels[backend.LabelRunner]] = struct{}{}
	}
	return b.removeVolumes(ctx, func(of string) bool {
		_, held := claimed[of]
		return !held
	})
}

func (b *Backend) removeVolumes(ctx context.Context, of func(runner string) bool) error {
	options := new(volumes.ListOptions).WithFilters(b.filter(nil))
	found, err := volumes.List(ctx, options)
	for again := 0; gone(err) && again < 5; again++ {
		found, err = volumes.List(ctx, options) // Podman 4 fails a listing when a volume goes away under it
	}
	if err != nil {
		return fault("list volumes", err)
	}
	var errs []error
	for _, v := range found {
		if of(v.Labels[backend.LabelRunner]) {
			errs = append(errs, b.removeVolume(ctx, v.Name))
		}
	}
	return errors.Join(errs...)
}

func (b *Backend) removeContainer(ctx context.Context, id string) error {
	_, err := containers.Remove(ctx, id, new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0))
	if err == nil || gone(err) {
		b.mu.Lock()
		delete(b.pids, id)
		b.mu.Unlock()
		return nil
	}
	return fault("remove container "+engine.Short(id), err)
}

func (b *Backend) removeVolume(ctx context.Context, name string) error {
	err := volumes.Remove(ctx, name, new(volumes.RemoveOptions).WithForce(true))
	if err == nil || gone(err) {
		return nil
	}
	return fault("remove volume "+name, err)
}
