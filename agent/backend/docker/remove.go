package docker

import (
	"context"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Remove deletes the workload that id belongs to as a whole: runner, sidecar, volumes. When
// the container of that id is gone already, what no container claims any more is swept up.
func (b *Backend) Remove(ctx context.Context, id string) error {
	return b.runners.Remove(ctx, calls{b}, id)
}

func (c calls) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	found, err := c.list(ctx, labels)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Container, 0, len(found))
	for _, s := range found {
		out = append(out, engine.Container{ID: s.ID, Name: name(s.Names), Labels: s.Labels, Volumes: len(s.Mounts) > 0})
	}
	return out, nil
}

func (c calls) Volumes(ctx context.Context) ([]engine.Volume, error) {
	found, err := engine.Again(gone, func() (client.VolumeListResult, error) {
		return c.api.VolumeList(ctx, client.VolumeListOptions{Filters: c.filter(nil)})
	})
	if err != nil {
		return nil, fault("list volumes", err)
	}
	out := make([]engine.Volume, 0, len(found.Items))
	for _, v := range found.Items {
		out = append(out, engine.Volume{Name: v.Name, Labels: v.Labels})
	}
	return out, nil
}

// RemoveContainer kills first where the engine is a compatible Podman, which gives a container
// that it is forced to remove its whole stop timeout.
func (c calls) RemoveContainer(ctx context.Context, id string) error {
	if found := c.found.Load(); found == nil || found.podman {
		_, err := c.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
		if err != nil && !gone(err) && !stopped(err) {
			return fault("kill container "+engine.Short(id), err)
		}
	}
	_, err := c.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if gone(err) {
		return nil
	}
	return fault("remove container "+engine.Short(id), err)
}

// RemoveVolume never forces: a compatible Podman would remove the containers that use it.
func (c calls) RemoveVolume(ctx context.Context, name string) error {
	_, err := c.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if gone(err) {
		return nil
	}
	return fault("remove volume "+name, err)
}
