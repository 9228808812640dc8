package docker

import (
	"context"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// podmanDied is what a compatible Podman filters by; it sends "die" then.
const podmanDied = "died"

// Watch sends starts and ends from the engine's event stream.
func (b *Backend) Watch(ctx context.Context) (<-chan backend.Event, error) {
	filter := b.filter(nil).Add("type", "container").Add("event", "start", "die", podmanDied)
	stream := b.api.Events(ctx, client.EventsListOptions{Filters: filter})
	select { // an engine that is not there has said so by now
	case err := <-stream.Err:
		return nil, fault("watch containers", err)
	default:
	}
	out := make(chan backend.Event, 16)
	go func() {
		defer close(out)
		for {
			select {
			case <-stream.Err: //nolint:errcheck // why it ended is seen by whoever opens the next one
				return
			case m := <-stream.Messages:
				if e, ok := b.event(m); ok {
					select {
					case out <- e:
					case <-ctx.Done():
						return
					}
				}
			}
		}
	}()
	return out, nil
}

// event is false for one that is not ours.
func (b *Backend) event(m events.Message) (backend.Event, bool) {
	if !engine.Ours(m.Actor.Attributes, b.hostID) {
		return backend.Event{}, false
	}
	e := backend.Event{ID: m.Actor.ID, RunnerID: m.Actor.Attributes[backend.LabelRunner], Phase: backend.Running}
	switch m.Action {
	case events.ActionStart:
	case events.ActionDie, podmanDied:
		e.Phase = backend.Exited
	default:
		return backend.Event{}, false
	}
	return e, true
}
