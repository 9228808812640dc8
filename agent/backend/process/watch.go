package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Watch sends starts and ends as the workloads' directories show them, whoever made them.
func (b *Backend) Watch(ctx context.Context) (<-chan backend.Event, error) {
	changes, err := watchDir(b.dir)
	if err != nil {
		return nil, err
	}
	w := &watcher{b: b, changes: changes, phases: map[string]backend.Phase{}}
	if _, err := w.look(); err != nil {
		_ = changes.Close()
		return nil, err
	}
	out := make(chan backend.Event, 16)
	go w.run(ctx, out)
	return out, nil
}

type watcher struct {
	b       *Backend
	changes *fsnotify.Watcher
	phases  map[string]backend.Phase
}

func (w *watcher) run(ctx context.Context, out chan<- backend.Event) {
	defer close(out)
	defer func() { _ = w.changes.Close() }()
	tick := time.NewTicker(net)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-w.changes.Events:
			if !open {
				return
			}
		case err := <-w.changes.Errors:
			w.b.log.Warn("cannot watch workloads", "error", err)
			return
		case <-tick.C:
		}
		events, err := w.look()
		if err != nil {
			w.b.log.Warn("cannot watch workloads", "error", err)
			return
		}
		for _, e := range events {
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}

// look compares the directories with what was seen before.
func (w *watcher) look() ([]backend.Event, error) {
	entries, err := os.ReadDir(w.b.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot watch workloads: %w", err)
	}
	var out []backend.Event
	present := map[string]backend.Phase{}
	for _, entry := range entries {
		id := entry.Name()
		if !isID(id) {
			continue
		}
		before, known := w.phases[id]
		if !known {
			// First watched, then read, so that nothing falls between. A directory that is gone
			// again needs neither.
			_ = w.changes.Add(filepath.Join(w.b.dir, id))
		}
		if before == backend.Exited {
			present[id] = before
			continue
		}
		s, err := w.b.read(id)
		if err != nil {
			continue
		}
		now := s.phase()
		present[id] = now
		event := backend.Event{ID: id, RunnerID: s.made.Labels[backend.LabelRunner]}
		if now != backend.Created && before != backend.Running {
			event.Phase = backend.Running // also of one that ended meanwhile
			out = append(out, event)
		}
		if now == backend.Exited {
			event.Phase = backend.Exited
			out = append(out, event)
		}
	}
	w.phases = present
	return out, nil
}
