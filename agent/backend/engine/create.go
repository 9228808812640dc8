package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Request is a container to create, in its engine's own words.
type Request struct {
	Image string
	// Make asks the engine once. It is ErrImage when the image is not there.
	Make func(ctx context.Context) (id string, err error)
}

// Maker is what a create needs of an engine: single calls, whose errors are those of the
// contract and say already what could not be done.
type Maker interface {
	Remover
	Sidecars
	// Runner is the runner's container, in the network of the sidecar of that ID unless it is empty.
	Runner(spec backend.Spec, sidecar string) (Request, error)
	Start(ctx context.Context, id string) error
	// Pull gets an image, also when there is one of that name.
	Pull(ctx context.Context, image string) error
}

// Runners are the runners of one backend: which are being created, and which container was
// part of which. Its fields are set before its first use.
type Runners struct {
	// HostID is the host whose workloads are ours; all are when it is empty.
	HostID string
	// Now is the clock.
	Now func() time.Time

	starts  Starts
	members Members
}

// See notes what a listing found.
func (r *Runners) See(present []backend.Workload) { r.members.See(present) }

// Begin checks spec, fills in its host and reserves its runner until end is called.
func (r *Runners) Begin(spec backend.Spec) (checked backend.Spec, end func(), err error) {
	if err := spec.Validate(); err != nil {
		return backend.Spec{}, nil, err
	}
	if spec.HostID, err = Owner(r.HostID, spec); err != nil {
		return backend.Spec{}, nil, err
	}
	end, err = r.starts.Begin(spec.RunnerID)
	return spec, end, err
}

// Create makes a workload that Begin has reserved and starts it unless start is false. It asks
// the engine as little as it can: the image is not looked for beforehand (a create that misses
// it says so), the look for another workload of the same runner runs beside the create, and
// nothing is inspected afterwards. What a failed one made is removed.
func (r *Runners) Create(ctx context.Context, m Maker, spec backend.Spec, start bool) (backend.Workload, error) {
	if spec.Policy == backend.PullAlways {
		if err := m.Pull(ctx, spec.Image); err != nil {
			return backend.Workload{}, err
		}
	}
	c := creation{Maker: m, spec: spec}
	w, err := c.build(ctx, r.Now, start)
	if err != nil {
		return backend.Workload{}, errors.Join(err, c.undo(ctx))
	}
	for _, id := range c.containers {
		r.members.Note(id, spec.RunnerID)
	}
	return w, nil
}

// creation is a create under way, and what it has made so far, in order.
type creation struct {
	Maker
	spec       backend.Spec
	containers []string
	volumes    []string
}

func (c *creation) build(ctx context.Context, now func() time.Time, start bool) (backend.Workload, error) {
	sidecar := ""
	if c.spec.Daemon != nil {
		// A sidecar takes long, so whether it may be made is settled first.
		if err := c.alone(ctx); err != nil {
			return backend.Workload{}, err
		}
		var err error
		if sidecar, err = c.startDaemon(ctx); err != nil {
			return backend.Workload{}, err
		}
	}
	request, err := c.Runner(c.spec, sidecar)
	if err != nil {
		return backend.Workload{}, err
	}
	created := now()
	id, err := c.place(ctx, request)
	if err != nil {
		return backend.Workload{}, err
	}
	w := backend.Workload{
		ID: id, Name: c.spec.Name, RunnerID: c.spec.RunnerID, PoolID: c.spec.PoolID,
		Role: backend.RoleRunner, Phase: backend.Created, CreatedAt: created,
	}
	if !start {
		return w, nil
	}
	if err := c.start(ctx, id); err != nil {
		return backend.Workload{}, err
	}
	w.Phase, w.StartedAt = backend.Running, now()
	return w, nil
}

// place creates the runner's container and makes sure that it is the runner's only one.
func (c *creation) place(ctx context.Context, request Request) (string, error) {
	var id string
	both, inner := errgroup.WithContext(ctx)
	both.Go(func() error {
		var err error
		id, err = c.make(ctx, request)
		return err
	})
	if c.spec.Daemon == nil {
		both.Go(func() error { return c.alone(inner) })
	}
	if err := both.Wait(); err != nil {
		return "", err
	}
	return id, nil
}

// alone is ErrExists when another container carries the runner's label. One of the runner's
// own name is ours, or makes the create fail.
func (c *creation) alone(ctx context.Context) error {
	found, err := c.Containers(ctx, map[string]string{backend.LabelRunner: c.spec.RunnerID})
	if err != nil {
		return err
	}
	for _, other := range found {
		if c.spec.Daemon == nil && other.Name == c.spec.Name {
			continue
		}
		return fmt.Errorf("runner %s has workload %s: %w", c.spec.RunnerID, Short(other.ID), backend.ErrExists)
	}
	return nil
}

// make creates one container, pulling its image when the engine says that it is missing.
func (c *creation) make(ctx context.Context, request Request) (string, error) {
	once := func() (string, error) {
		ctx, done := Settle(ctx, SettleLimit)
		defer done()
		return request.Make(ctx)
	}
	id, err := once()
	if errors.Is(err, backend.ErrImage) && c.spec.Policy != backend.PullNever && c.spec.Policy != backend.PullAlways {
		if err := c.Pull(ctx, request.Image); err != nil {
			return "", err
		}
		id, err = once()
	}
	if err != nil {
		return "", err
	}
	c.containers = append(c.containers, id)
	return id, nil
}

func (c *creation) start(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot start container %s: %w", Short(id), err)
	}
	ctx, done := Settle(ctx, SettleLimit)
	defer done()
	return c.Start(ctx, id)
}

// undo removes what a failed create made, whatever became of its context.
func (c *creation) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RemoveLimit)
	defer cancel()
	var errs []error
	for _, id := range slices.Backward(c.containers) {
		errs = append(errs, c.RemoveContainer(ctx, id))
	}
	for _, name := range c.volumes {
		errs = append(errs, c.RemoveVolume(ctx, name))
	}
	return errors.Join(errs...)
}
