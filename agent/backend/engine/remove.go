package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Container is what a listing says of a container.
type Container struct {
	ID, Name string
	Labels   map[string]string
	Volumes  bool // it mounts something
}

// Volume is what a listing says of a volume.
type Volume struct {
	Name   string
	Labels map[string]string
}

// Remover is what a removal needs of an engine. What is gone already counts as removed.
type Remover interface {
	// Containers are those of ours that carry the given labels too.
	Containers(ctx context.Context, labels map[string]string) ([]Container, error)
	// Volumes may return more than ours: engines take several label filters to mean any of them.
	Volumes(ctx context.Context) ([]Volume, error)
	// RemoveContainer kills what runs.
	RemoveContainer(ctx context.Context, id string) error
	// RemoveVolume never forces: that can remove the containers that use the volume.
	RemoveVolume(ctx context.Context, name string) error
}

// Remove deletes the workload that id belongs to as a whole: runner, sidecar, volumes. When
// the container of that id is gone already, what no container claims any more is swept up.
func (r *Runners) Remove(ctx context.Context, e Remover, id string) error {
	all, err := e.Containers(ctx, nil)
	if err != nil {
		return err
	}
	runner, volumes := r.members.Runner(id), false
	for _, c := range all {
		if c.ID == id {
			runner = c.Labels[backend.LabelRunner]
		}
	}
	if runner == "" {
		return r.sweep(ctx, e)
	}
	found := false
	var errs []error
	for _, role := range []string{backend.RoleRunner, backend.RoleDaemon} { // the runner holds the sidecar's network
		for _, c := range all {
			if c.Labels[backend.LabelRunner] != runner || c.Labels[backend.LabelRole] != role {
				continue
			}
			found = true
			volumes = volumes || role == backend.RoleDaemon || c.Volumes
			errs = append(errs, e.RemoveContainer(ctx, c.ID))
		}
	}
	if volumes || !found {
		errs = append(errs, r.removeVolumes(ctx, e, func(of string) bool { return of == runner }))
	}
	err = errors.Join(errs...)
	if err == nil {
		r.members.Forget(runner)
	}
	return err
}

// sweep removes volumes of runners that have no container and are not being created.
func (r *Runners) sweep(ctx context.Context, e Remover) error {
	claimed := r.starts.UnderWay()
	all, err := e.Containers(ctx, nil)
	if err != nil {
		return err
	}
	for _, c := range all {
		claimed[c.Labels[backend.LabelRunner]] = struct{}{}
	}
	return r.removeVolumes(ctx, e, func(of string) bool {
		_, held := claimed[of]
		return !held
	})
}

// removeVolumes removes those of our volumes whose runner is meant. Another host's volumes may
// be in the answer, so the labels are looked at again.
func (r *Runners) removeVolumes(ctx context.Context, e Remover, of func(runner string) bool) error {
	found, err := e.Volumes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range found {
		if Ours(v.Labels, r.HostID) && of(v.Labels[backend.LabelRunner]) {
			errs = append(errs, e.RemoveVolume(ctx, v.Name))
		}
	}
	return errors.Join(errs...)
}

// Fleeting says that an engine failed to look at a container because its process ended while it looked. Podman 4 answers so.
func Fleeting(err error) bool { return err != nil && strings.Contains(err.Error(), "no such process") }

// Again repeats a listing that failed because something in it vanished meanwhile, as gone
// tells: Podman 4 gives up on the whole of it.
func Again[T any](gone func(error) bool, list func() (T, error)) (T, error) {
	for range 4 {
		if out, err := list(); !gone(err) {
			return out, err
		}
	}
	return list()
}
