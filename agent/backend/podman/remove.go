package podman

import (
	"context"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"
	"github.com/containers/podman/v5/pkg/domain/entities/types"

	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Remove deletes the workload that id belongs to as a whole: runner, sidecar, volumes. When
// the container of that id is gone already, what no container claims any more is swept up.
func (b *Backend) Remove(ctx context.Context, id string) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	return b.runners.Remove(ctx, calls{b}, id)
}

func (c calls) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	found, err := c.list(ctx, labels)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Container, 0, len(found))
	for _, l := range found {
		one := engine.Container{ID: l.ID, Labels: l.Labels, Volumes: len(l.Mounts) > 0}
		if len(l.Names) > 0 {
			one.Name = l.Names[0]
		}
		out = append(out, one)
	}
	return out, nil
}

func (c calls) Volumes(ctx context.Context) ([]engine.Volume, error) {
	found, err := engine.Again(gone, func() ([]*types.VolumeListReport, error) {
		return volumes.List(ctx, new(volumes.ListOptions).WithFilters(c.filter(nil)))
	})
	if err != nil {
		return nil, fault("list volumes", err)
	}
	out := make([]engine.Volume, 0, len(found))
	for _, v := range found {
		out = append(out, engine.Volume{Name: v.Name, Labels: v.Labels})
	}
	return out, nil
}

func (c calls) RemoveContainer(ctx context.Context, id string) error {
	_, err := containers.Remove(ctx, id, new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0))
	if err == nil || gone(err) {
		c.samples.Forget(id)
		return nil
	}
	return fault("remove container "+engine.Short(id), err)
}

// RemoveVolume never forces: that would remove the containers that use the volume.
func (c calls) RemoveVolume(ctx context.Context, name string) error {
	err := volumes.Remove(ctx, name, nil)
	if gone(err) {
		return nil
	}
	return fault("remove volume "+name, err)
}
