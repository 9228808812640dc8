// Package fake is a container engine in memory: it keeps the contract of backend.Backend
// faithfully and lets a test break it on purpose. It outlives the agents that use it, as a
// real engine does, and must never be used outside tests and demonstrations.
package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Exit codes of a process that a signal ended.
const (
	exitTerm = 143
	exitKill = 137
)

// Backend is the engine. Make it with New.
type Backend struct {
	name string
	now  func() time.Time

	mu       sync.Mutex
	info     backend.Info
	host     string // the bound host's ID
	next     int
	items    map[string]*item // by workload ID
	faults   map[Op][]*Fault
	calls    map[Op]int
	watchers map[chan backend.Event]bool
	prepared []string
	stubborn map[string]bool // runners that ignore the stop signal
	hidden   map[string]bool // runners that List leaves out
	peak     int             // most creates and prepares at once
	busy     int
}

// item is one workload with what its engine keeps of it.
type item struct {
	w       backend.Workload
	host    string
	spec    backend.Spec
	log     bytes.Buffer
	stats   backend.Stats
	changed chan struct{} // closed and replaced when log or phase change
}

var _ backend.Backend = (*Backend)(nil)

// New makes an engine with four cores and 8 GiB. A nil now is time.Now.
func New(name string, now func() time.Time) *Backend {
	if now == nil {
		now = time.Now
	}
	return &Backend{
		name: name, now: now,
		info: backend.Info{
			Version: "fake", OS: "linux", Arch: "amd64", CPUs: 4, MemoryMB: 8192,
			CPULimit: true, MemoryLimit: true, PidsLimit: true, CgroupV2: true,
		},
		items: map[string]*item{}, faults: map[Op][]*Fault{}, calls: map[Op]int{},
		watchers: map[chan backend.Event]bool{}, stubborn: map[string]bool{}, hidden: map[string]bool{},
	}
}

// BindHost makes List and Watch speak of one host's workloads only.
func (b *Backend) BindHost(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.host = id
}

// Name implements backend.Backend.
func (b *Backend) Name() string { return b.name }

// Probe implements backend.Backend.
func (b *Backend) Probe(ctx context.Context) (info backend.Info, err error) {
	err = b.do(ctx, OpProbe, func() error {
		info = b.info
		return nil
	})
	return info, err
}

// Prepare implements backend.Backend.
func (b *Backend) Prepare(ctx context.Context, image, _ string) error {
	b.enter()
	defer b.leave()
	return b.do(ctx, OpPrepare, func() error {
		b.prepared = append(b.prepared, image)
		return nil
	})
}

// Create implements backend.Backend.
func (b *Backend) Create(ctx context.Context, spec backend.Spec) (w backend.Workload, err error) {
	b.enter()
	defer b.leave()
	err = b.do(ctx, OpCreate, func() error {
		for _, it := range b.items {
			if it.w.Name == spec.Name || (spec.RunnerID != "" && it.w.RunnerID == spec.RunnerID) {
				return fmt.Errorf("cannot create %s: %w", spec.Name, backend.ErrExists)
			}
		}
		if spec.Daemon != nil {
			b.put(spec, spec.Name+"-daemon", backend.RoleDaemon)
		}
		w = b.put(spec, spec.Name, backend.RoleRunner).w
		return nil
	})
	if err != nil {
		return backend.Workload{}, err
	}
	return w, nil
}

// put adds a running workload. The caller holds mu.
func (b *Backend) put(spec backend.Spec, name, role string) *item {
	b.next++
	now := b.now()
	it := &item{
		w: backend.Workload{
			ID: "wl" + strconv.Itoa(b.next), Name: name, RunnerID: spec.RunnerID, PoolID: spec.PoolID,
			Role: role, Phase: backend.Running, CreatedAt: now, StartedAt: now,
		},
		host: spec.HostID, spec: spec, changed: make(chan struct{}),
	}
	it.spec.Env = maps.Clone(spec.Env)
	b.items[it.w.ID] = it
	b.tell(it)
	return it
}

// List implements backend.Backend.
func (b *Backend) List(ctx context.Context) (ws []backend.Workload, err error) {
	err = b.do(ctx, OpList, func() error {
		for _, it := range b.items {
			if (b.host == "" || it.host == b.host) && !b.hidden[it.w.RunnerID] {
				ws = append(ws, it.w)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ws, func(x, y backend.Workload) int { return x.CreatedAt.Compare(y.CreatedAt) })
	return ws, nil
}

// Inspect implements backend.Backend.
func (b *Backend) Inspect(ctx context.Context, id string) (w backend.Workload, err error) {
	err = b.do(ctx, OpInspect, func() error {
		it, err := b.get(id)
		if err == nil {
			w = it.w
		}
		return err
	})
	return w, err
}

// Stop implements backend.Backend: the workload ends at once, or after grace when it is
// stubborn.
func (b *Backend) Stop(ctx context.Context, id string, grace time.Duration) error {
	stubborn := false
	err := b.do(ctx, OpStop, func() error {
		it := b.items[id]
		if it == nil || it.w.Phase == backend.Exited {
			return nil
		}
		if stubborn = b.stubborn[it.w.RunnerID]; !stubborn {
			b.exit(it, exitTerm, false)
		}
		return nil
	})
	if err != nil || !stubborn {
		return err
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.items[id]; it != nil && it.w.Phase != backend.Exited {
		b.exit(it, exitKill, false)
	}
	return nil
}

// Remove implements backend.Backend.
func (b *Backend) Remove(ctx context.Context, id string) error {
	return b.do(ctx, OpRemove, func() error {
		it := b.items[id]
		if it == nil {
			return nil
		}
		b.drop(it)
		for _, side := range b.items {
			if it.w.Role == backend.RoleRunner && side.w.Role == backend.RoleDaemon && side.w.RunnerID == it.w.RunnerID {
				b.drop(side)
			}
		}
		return nil
	})
}

// Logs implements backend.Backend.
func (b *Backend) Logs(ctx context.Context, id string, opts backend.LogOptions) (r io.ReadCloser, err error) {
	err = b.do(ctx, OpLogs, func() error {
		it, err := b.get(id)
		if err != nil {
			return err
		}
		r = newLogReader(ctx, b, it, opts)
		return nil
	})
	return r, err
}

// Stats implements backend.Backend.
func (b *Backend) Stats(ctx context.Context, id string) (s backend.Stats, err error) {
	err = b.do(ctx, OpStats, func() error {
		it, err := b.get(id)
		if err != nil {
			return err
		}
		if it.w.Phase != backend.Running {
			return errors.New("cannot sample a workload that does not run")
		}
		s = it.stats
		s.At = b.now()
		return nil
	})
	return s, err
}

// Watch implements backend.Backend. A watcher that does not keep up loses events.
func (b *Backend) Watch(ctx context.Context) (<-chan backend.Event, error) {
	ch := make(chan backend.Event, 16)
	err := b.do(ctx, OpWatch, func() error {
		b.watchers[ch] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { b.unwatch(ch) })
	return ch, nil
}

func (b *Backend) unwatch(ch chan backend.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers[ch] {
		delete(b.watchers, ch)
		close(ch)
	}
}

// get finds a workload. The caller holds mu.
func (b *Backend) get(id string) (*item, error) {
	it := b.items[id]
	if it == nil {
		return nil, fmt.Errorf("cannot find workload %q: %w", id, backend.ErrNotFound)
	}
	return it, nil
}

// exit ends a workload. The caller holds mu.
func (b *Backend) exit(it *item, code int, oom bool) {
	it.w.Phase, it.w.ExitCode, it.w.OOMKilled, it.w.EndedAt = backend.Exited, code, oom, b.now()
	b.tell(it)
	it.bump()
}

// drop deletes a workload. The caller holds mu.
func (b *Backend) drop(it *item) {
	if it.w.Phase == backend.Running {
		b.exit(it, exitKill, false)
	}
	delete(b.items, it.w.ID)
	it.bump()
}

// tell sends an event to every watcher that can take it. The caller holds mu.
func (b *Backend) tell(it *item) {
	for ch := range b.watchers {
		select {
		case ch <- backend.Event{ID: it.w.ID, RunnerID: it.w.RunnerID, Phase: it.w.Phase}:
		default:
		}
	}
}

// bump wakes whoever follows the log. The caller holds the backend's mu.
func (it *item) bump() {
	close(it.changed)
	it.changed = make(chan struct{})
}
