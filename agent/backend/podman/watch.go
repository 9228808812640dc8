package podman

import (
	"context"

	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/containers/podman/v5/pkg/domain/entities/types"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Watch sends starts and ends from Podman's event stream.
func (b *Backend) Watch(ctx context.Context) (<-chan backend.Event, error) {
	dialled, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	filter := b.filter(nil)
	filter["type"] = []string{"container"}
	filter["event"] = []string{"start", "died"}
	raw := make(chan types.Event)
	err = system.Events(dialled, raw, nil, new(system.EventsOptions).WithFilters(filter).WithStream(true))
	if err != nil {
		return nil, fault("watch containers", err)
	}
	out := make(chan backend.Event, 16)
	go func() {
		defer close(out)
		for e := range raw { // to the end: the bindings' goroutine blocks on it
			event, ok := b.event(e)
			if !ok {
				continue
			}
			select {
			case out <- event:
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

// event is false for one that is not ours. The filters are the engine's, and Podman matches
// repeated labels differently between versions.
func (b *Backend) event(e types.Event) (backend.Event, bool) {
	labels := e.Actor.Attributes
	if !engine.Ours(labels, b.hostID) {
		return backend.Event{}, false
	}
	out := backend.Event{ID: e.Actor.ID, RunnerID: labels[backend.LabelRunner], Phase: backend.Running}
	switch e.Action {
	case "start":
	case "died":
		out.Phase = backend.Exited
	default:
		return backend.Event{}, false
	}
	return out, true
}
