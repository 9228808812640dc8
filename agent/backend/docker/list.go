package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
	"github.com/zoomies-fleet/zoomies/agent/backend/oom"
)

// List returns the managed workloads of this host in every phase, sidecars included. A
// listing of Docker's has neither times nor exit codes, so each container is inspected once
// in each phase.
func (b *Backend) List(ctx context.Context) ([]backend.Workload, error) {
	found, err := b.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make([]backend.Workload, 0, len(found))
	for _, c := range found {
		b.mu.Lock()
		w, known := b.seen[c.ID]
		b.mu.Unlock()
		if !known || w.Phase != phase(c.State) {
			data, err := b.ours(ctx, c.ID)
			switch {
			case errors.Is(err, backend.ErrNotFound):
				continue // gone since
			case err != nil:
				return nil, err
			}
			w = b.inspected(data)
			b.mu.Lock()
			b.seen[c.ID] = w
			b.mu.Unlock()
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(x, y backend.Workload) int { return x.CreatedAt.Compare(y.CreatedAt) })
	b.forget(out)
	b.runners.See(out)
	return out, nil
}

// forget drops what is remembered of workloads that are gone.
func (b *Backend) forget(present []backend.Workload) {
	b.samples.Keep(present)
	b.mu.Lock()
	defer b.mu.Unlock()
	engine.Keep(b.seen, present)
}

// list asks for containers that carry our labels and the given ones.
func (b *Backend) list(ctx context.Context, extra map[string]string) ([]container.Summary, error) {
	found, err := engine.Again(gone, func() (client.ContainerListResult, error) {
		return b.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: b.filter(extra)})
	})
	if err != nil {
		return nil, fault("list containers", err)
	}
	return slices.DeleteFunc(found.Items, func(c container.Summary) bool { return !engine.Ours(c.Labels, b.hostID) }), nil
}

func (b *Backend) filter(extra map[string]string) client.Filters {
	f := make(client.Filters).Add("label", backend.LabelManaged+"=true")
	if b.hostID != "" {
		f.Add("label", backend.LabelHost+"="+b.hostID)
	}
	for key, value := range extra {
		f.Add("label", key+"="+value)
	}
	return f
}

// Inspect returns one workload, or ErrNotFound.
func (b *Backend) Inspect(ctx context.Context, id string) (backend.Workload, error) {
	data, err := b.ours(ctx, id)
	if err != nil {
		return backend.Workload{}, err
	}
	return b.inspected(data), nil
}

// ours inspects a container and refuses one that is not a workload of this host.
func (b *Backend) ours(ctx context.Context, id string) (container.InspectResponse, error) {
	data, err := engine.Again(engine.Fleeting, func() (client.ContainerInspectResult, error) {
		return b.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	})
	if gone(err) {
		return container.InspectResponse{}, fmt.Errorf("container %s: %w", engine.Short(id), backend.ErrNotFound)
	}
	if err != nil {
		return container.InspectResponse{}, fault("look at container "+engine.Short(id), err)
	}
	c := data.Container
	if c.Config == nil || c.State == nil || !engine.Ours(c.Config.Labels, b.hostID) {
		return container.InspectResponse{}, fmt.Errorf("container %s is not a workload of this host: %w", engine.Short(id), backend.ErrNotFound)
	}
	return c, nil
}

func (b *Backend) inspected(c container.InspectResponse) backend.Workload {
	labels := c.Config.Labels
	w := backend.Workload{
		ID: c.ID, Name: name([]string{c.Name}),
		RunnerID: labels[backend.LabelRunner], PoolID: labels[backend.LabelPool], Role: labels[backend.LabelRole],
		Phase:     phase(c.State.Status),
		CreatedAt: moment(c.Created), StartedAt: moment(c.State.StartedAt),
	}
	if w.Phase == backend.Exited {
		w.ExitCode, w.OOMKilled, w.EndedAt = c.State.ExitCode, c.State.OOMKilled, moment(c.State.FinishedAt)
		if !w.OOMKilled && c.HostConfig != nil && c.HostConfig.Memory > 0 {
			killed, err := oom.Killed(c.ID)
			if err != nil {
				b.log.Debug("only Docker can say whether memory ran out", "error", err)
			}
			w.OOMKilled = killed
		}
	}
	return w
}

func name(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.TrimPrefix(names[0], "/")
}

// moment reads a time, or the zero time for Docker's never.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Unix() <= 0 {
		return time.Time{}
	}
	return t.UTC()
}

// phase of a Docker state.
func phase(state container.ContainerState) backend.Phase {
	switch state {
	case container.StateRunning, container.StatePaused, container.StateRestarting, "stopping":
		return backend.Running
	case container.StateExited, container.StateDead, container.StateRemoving, "stopped":
		return backend.Exited
	default: // created, or a word that is not known: not seen to run
		return backend.Created
	}
}
