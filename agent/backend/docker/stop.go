package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stop signals and waits by itself, so that a grace shorter than a second counts and a
// compatible Podman does not keep the container locked.
func (b *Backend) Stop(ctx context.Context, id string, grace time.Duration) error {
	data, err := b.ours(ctx, id)
	if err != nil {
		return err
	}
	if phase(data.State.Status) != backend.Running {
		return nil
	}
	if grace > 0 {
		signal := data.Config.StopSignal
		if signal == "" {
			signal = "SIGTERM"
		}
		ended, err := b.signalAndWait(ctx, id, signal, grace)
		if err != nil || ended {
			return err
		}
	}
	ended, err := b.signalAndWait(ctx, id, "SIGKILL", engine.KillLimit)
	if err == nil && !ended {
		return fmt.Errorf("cannot stop container %s: it is still there %s after it was killed", engine.Short(id), engine.KillLimit)
	}
	return err
}

// signalAndWait is true when the container has ended within limit.
func (b *Backend) signalAndWait(ctx context.Context, id, signal string, limit time.Duration) (bool, error) {
	_, err := b.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: signal})
	if gone(err) {
		return true, nil
	}
	if err != nil && !stopped(err) {
		return false, fault("signal container "+engine.Short(id), err)
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wait := b.api.ContainerWait(waiting, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
		return true, nil
	case err = <-wait.Error:
	}
	switch {
	case gone(err):
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
	all, err := b.list(ctx, nil)
	if err != nil {
		return err
	}
	runner, volumes := b.members.Runner(id), false
	for _, c := range all {
		if c.ID == id {
			runner = c.Labels[backend.LabelRunner]
		}
	}
	if runner == "" {
		return b.sweep(ctx)
	}
	found := false
	var errs []error
	for _, role := range []string{backend.RoleRunner, backend.RoleDaemon} { // the runner holds the sidecar's network
		for _, c := range all {
			if c.Labels[backend.LabelRunner] != runner || c.Labels[backend.LabelRole] != role {
				continue
			}
			found = true
			volumes = volumes || role == backend.RoleDaemon || len(c.Mounts) > 0
			errs = append(errs, b.removeContainer(ctx, c.ID))
		}
	}
	if volumes || !found {
		errs = append(errs, b.removeVolumes(ctx, func(of string) bool { return of == runner }))
	}
	err = errors.Join(errs...)
	if err == nil {
		b.members.Forget(runner)
	}
	return err
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

// removeVolumes removes those of our volumes whose runner is meant. A compatible Podman takes
// several label filters to mean any of them, so the labels are looked at again.
func (b *Backend) removeVolumes(ctx context.Context, of func(runner string) bool) error {
	found, err := again(func() (client.VolumeListResult, error) {
		return b.api.VolumeList(ctx, client.VolumeListOptions{Filters: b.filter(nil)})
	})
	if err != nil {
		return fault("list volumes", err)
	}
	var errs []error
	for _, v := range found.Items {
		if engine.Ours(v.Labels, b.hostID) && of(v.Labels[backend.LabelRunner]) {
			errs = append(errs, b.removeVolume(ctx, v.Name))
		}
	}
	return errors.Join(errs...)
}

// again repeats a listing that failed because something in it vanished meanwhile: Podman 4
// gives up on the whole of it.
func again[T any](list func() (T, error)) (T, error) {
	for range 4 {
		if out, err := list(); !gone(err) {
			return out, err
		}
	}
	return list()
}

// removeContainer kills first where the engine is a compatible Podman, which gives a container
// that it is forced to remove its whole stop timeout.
func (b *Backend) removeContainer(ctx context.Context, id string) error {
	b.mu.Lock()
	podman := b.found == nil || b.found.podman
	b.mu.Unlock()
	if podman {
		_, err := b.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
		if err != nil && !gone(err) && !stopped(err) {
			return fault("kill container "+engine.Short(id), err)
		}
	}
	_, err := b.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || gone(err) {
		return nil
	}
	return fault("remove container "+engine.Short(id), err)
}

// removeVolume never forces: a compatible Podman would remove the containers that use it.
func (b *Backend) removeVolume(ctx context.Context, name string) error {
	_, err := b.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err == nil || gone(err) {
		return nil
	}
	return fault("remove volume "+name, err)
}
