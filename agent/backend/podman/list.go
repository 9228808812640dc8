package podman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/domain/entities/types"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
	"github.com/zoomies-fleet/zoomies/agent/backend/oom"
)

// List returns the managed workloads of this host in every phase, sidecars included.
func (b *Backend) List(ctx context.Context) ([]backend.Workload, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	found, err := b.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make([]backend.Workload, 0, len(found))
	for _, c := range found {
		w := listed(c)
		if w.Phase == backend.Exited {
			// A listing does not say whether memory ran out, nor fractions of seconds.
			w, err = b.ended(ctx, c.ID)
			switch {
			case errors.Is(err, backend.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(x, y backend.Workload) int { return x.CreatedAt.Compare(y.CreatedAt) })
	b.forget(out)
	b.runners.See(out)
	return out, nil
}

// list asks for containers that carry our labels and the given ones.
func (b *Backend) list(ctx context.Context, extra map[string]string) ([]types.ListContainer, error) {
	found, err := engine.Again(gone, func() ([]types.ListContainer, error) {
		return containers.List(ctx, new(containers.ListOptions).WithAll(true).WithFilters(b.filter(extra)))
	})
	if err != nil {
		return nil, fault("list containers", err)
	}
	return slices.DeleteFunc(found, func(c types.ListContainer) bool { return !engine.Ours(c.Labels, b.hostID) }), nil
}

func (b *Backend) filter(extra map[string]string) map[string][]string {
	labels := []string{backend.LabelManaged + "=true"}
	if b.hostID != "" {
		labels = append(labels, backend.LabelHost+"="+b.hostID)
	}
	for key, value := range extra {
		labels = append(labels, key+"="+value)
	}
	return map[string][]string{"label": labels}
}

// Inspect returns one workload, or ErrNotFound.
func (b *Backend) Inspect(ctx context.Context, id string) (backend.Workload, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return backend.Workload{}, err
	}
	data, err := b.ours(ctx, id)
	if err != nil {
		return backend.Workload{}, err
	}
	return b.inspected(data), nil
}

// ended inspects a container that has exited, once: it does not change any more.
func (b *Backend) ended(ctx context.Context, id string) (backend.Workload, error) {
	b.mu.Lock()
	w, known := b.done[id]
	b.mu.Unlock()
	if known {
		return w, nil
	}
	data, err := b.ours(ctx, id)
	if err != nil {
		return backend.Workload{}, err
	}
	w = b.inspected(data)
	if w.Phase == backend.Exited {
		b.mu.Lock()
		b.done[id] = w
		b.mu.Unlock()
	}
	return w, nil
}

// ours inspects a container and refuses one that is not a workload of this host.
func (b *Backend) ours(ctx context.Context, id string) (*define.InspectContainerData, error) {
	data, err := engine.Again(engine.Fleeting, func() (*define.InspectContainerData, error) { return containers.Inspect(ctx, id, nil) })
	if gone(err) {
		return nil, fmt.Errorf("container %s: %w", engine.Short(id), backend.ErrNotFound)
	}
	if err != nil {
		return nil, fault("look at container "+engine.Short(id), err)
	}
	labels := data.Config.Labels
	if !engine.Ours(labels, b.hostID) {
		return nil, fmt.Errorf("container %s is not a workload of this host: %w", engine.Short(id), backend.ErrNotFound)
	}
	return data, nil
}

func (b *Backend) inspected(data *define.InspectContainerData) backend.Workload {
	w := labelled(data.Config.Labels)
	w.ID, w.Name, w.CreatedAt = data.ID, data.Name, data.Created
	w.Phase = phase(data.State.Status)
	w.StartedAt = moment(data.State.StartedAt)
	if w.Phase == backend.Exited {
		w.ExitCode, w.OOMKilled = int(data.State.ExitCode), data.State.OOMKilled
		w.EndedAt = moment(data.State.FinishedAt)
		if !w.OOMKilled && data.HostConfig != nil && data.HostConfig.Memory > 0 {
			killed, err := oom.Killed(data.ID)
			if err != nil {
				b.log.Debug("only Podman can say whether memory ran out", "error", err)
			}
			w.OOMKilled = killed
		}
	}
	return w
}

func listed(c types.ListContainer) backend.Workload {
	w := labelled(c.Labels)
	w.ID, w.CreatedAt = c.ID, c.Created
	if len(c.Names) > 0 {
		w.Name = c.Names[0]
	}
	w.Phase = phase(c.State)
	w.StartedAt = moment(time.Unix(c.StartedAt, 0))
	if w.Phase == backend.Exited {
		w.ExitCode, w.EndedAt = int(c.ExitCode), moment(time.Unix(c.ExitedAt, 0))
	}
	return w
}

func labelled(labels map[string]string) backend.Workload {
	return backend.Workload{
		RunnerID: labels[backend.LabelRunner],
		PoolID:   labels[backend.LabelPool],
		Role:     labels[backend.LabelRole],
	}
}

// moment is t, or the zero time for Podman's own kinds of never.
func moment(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t.UTC()
}

// phase of a Podman state.
func phase(state string) backend.Phase {
	switch state {
	case "running", "paused", "stopping":
		return backend.Running
	case "exited", "stopped", "removing":
		return backend.Exited
	}
	return backend.Created // created, configured, initialized
}

// forget drops what is remembered of workloads that are gone.
func (b *Backend) forget(present []backend.Workload) {
	b.samples.Keep(present)
	b.mu.Lock()
	defer b.mu.Unlock()
	engine.Keep(b.done, present)
}
