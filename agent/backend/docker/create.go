package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Create makes and starts a workload. The image is not asked for beforehand (a create that
// misses it says so), and the look for another workload of the same runner runs beside the
// create.
func (b *Backend) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	w, err := b.create(ctx, spec, true)
	if err != nil {
		return backend.Workload{}, fmt.Errorf("cannot create workload %q: %w", spec.Name, err)
	}
	return w, nil
}

// create stops short of starting when start is false, which only a test asks for.
func (b *Backend) create(ctx context.Context, spec backend.Spec, start bool) (backend.Workload, error) {
	if err := spec.Validate(); err != nil {
		return backend.Workload{}, err
	}
	owner, err := engine.Owner(b.hostID, spec)
	if err != nil {
		return backend.Workload{}, err
	}
	spec.HostID = owner
	end, err := b.starts.Begin(spec.RunnerID)
	if err != nil {
		return backend.Workload{}, err
	}
	defer end()
	f, err := b.features(ctx)
	if err != nil {
		return backend.Workload{}, err
	}
	if spec.Policy == backend.PullAlways {
		if err := b.pull(ctx, spec.Image); err != nil {
			return backend.Workload{}, err
		}
	}
	var made made
	w, err := b.build(ctx, spec, f, start, &made)
	if err != nil {
		return backend.Workload{}, errors.Join(err, b.undo(ctx, made))
	}
	for _, id := range made.containers {
		b.members.Note(id, spec.RunnerID)
	}
	return w, nil
}

// made is what a create has made so far, in order.
type made struct {
	containers []string
	volumes    []string
}

func (b *Backend) build(ctx context.Context, spec backend.Spec, f features, start bool, made *made) (backend.Workload, error) {
	sidecar := ""
	if spec.Daemon != nil {
		// A sidecar takes long, so whether it may be made is settled first.
		if err := b.alone(ctx, spec); err != nil {
			return backend.Workload{}, err
		}
		var err error
		if sidecar, err = b.startDaemon(ctx, spec, f, made); err != nil {
			return backend.Workload{}, err
		}
	}
	options, err := runnerOptions(spec, f, sidecar)
	if err != nil {
		return backend.Workload{}, err
	}
	created := b.now()
	id, err := b.place(ctx, spec, options, made)
	if err != nil {
		return backend.Workload{}, err
	}
	w := backend.Workload{
		ID: id, Name: spec.Name, RunnerID: spec.RunnerID, PoolID: spec.PoolID,
		Role: backend.RoleRunner, Phase: backend.Created, CreatedAt: created,
	}
	if !start {
		return w, nil
	}
	if err := b.start(ctx, id); err != nil {
		return backend.Workload{}, err
	}
	w.Phase, w.StartedAt = backend.Running, b.now()
	return w, nil
}

// place creates the runner's container and makes sure that it is the runner's only one.
func (b *Backend) place(ctx context.Context, spec backend.Spec, options client.ContainerCreateOptions, made *made) (string, error) {
	var id string
	both, inner := errgroup.WithContext(ctx)
	both.Go(func() error {
		var err error
		if id, err = b.make(ctx, options, spec.Policy); err == nil {
			made.containers = append(made.containers, id)
		}
		return err
	})
	if spec.Daemon == nil {
		both.Go(func() error { return b.alone(inner, spec) })
	}
	if err := both.Wait(); err != nil { // before id is read, which it lets through
		return "", err
	}
	return id, nil
}

// alone is ErrExists when another container carries the runner's label. One of the runner's
// own name is ours, or makes the create fail.
func (b *Backend) alone(ctx context.Context, spec backend.Spec) error {
	found, err := b.list(ctx, map[string]string{backend.LabelRunner: spec.RunnerID})
	if err != nil {
		return err
	}
	for _, c := range found {
		if spec.Daemon == nil && name(c.Names) == spec.Name {
			continue
		}
		return fmt.Errorf("runner %s has workload %s: %w", spec.RunnerID, engine.Short(c.ID), backend.ErrExists)
	}
	return nil
}

// make creates one container, pulling its image when the engine says that it is missing.
func (b *Backend) make(ctx context.Context, options client.ContainerCreateOptions, policy string) (string, error) {
	id, err := b.createContainer(ctx, options)
	if errors.Is(err, backend.ErrImage) && policy != backend.PullNever && policy != backend.PullAlways {
		if err := b.pull(ctx, options.Config.Image); err != nil {
			return "", err
		}
		id, err = b.createContainer(ctx, options)
	}
	return id, err
}

func (b *Backend) createContainer(ctx context.Context, options client.ContainerCreateOptions) (string, error) {
	ctx, done := engine.Settle(ctx, engine.SettleLimit)
	defer done()
	made, err := b.api.ContainerCreate(ctx, options)
	if err != nil {
		return "", fault("create container "+options.Name, err)
	}
	return made.ID, nil
}

func (b *Backend) start(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot start container %s: %w", engine.Short(id), err)
	}
	ctx, done := engine.Settle(ctx, engine.SettleLimit)
	defer done()
	_, err := b.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return fault("start container "+engine.Short(id), err)
}

// undo removes what a failed create made, whatever became of its context.
func (b *Backend) undo(ctx context.Context, made made) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.RemoveLimit)
	defer cancel()
	var errs []error
	for _, v := range slices.Backward(made.containers) {
		errs = append(errs, b.removeContainer(ctx, v))
	}
	for _, volume := range made.volumes {
		errs = append(errs, b.removeVolume(ctx, volume))
	}
	return errors.Join(errs...)
}
