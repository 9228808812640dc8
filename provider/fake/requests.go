package fake

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/zoomies-fleet/zoomies/provider"
)

// The requests below are the world's own interface, as a hypervisor's: they go by identity and ask no mark. by is who asks, for the audit
// only. A test can build a provider over them that is wrong on purpose.

// Read returns what is under an identity.
func (w *World) Read(ctx context.Context, id string) (f provider.Found, err error) {
	err = w.do(ctx, Read, id, func() error {
		t := w.things[id]
		switch {
		case !w.visible(t):
			return provider.ErrDenied
		case t == nil:
			return provider.ErrNotFound
		}
		f = t.show()
		return nil
	})
	return f, err
}

// Held says whether anything has an identity, also what may not be read.
func (w *World) Held(ctx context.Context, id string) (held bool, err error) {
	err = w.do(ctx, Free, id, func() error {
		held = w.things[id] != nil
		return nil
	})
	return held, err
}

// Index returns what was there not longer ago than Options.Lag.
func (w *World) Index(ctx context.Context) (all []provider.Found, err error) {
	err = w.do(ctx, Index, "everything", func() error {
		if w.seenAt.IsZero() || !w.frozen && w.now().Sub(w.seenAt) >= w.o.Lag {
			w.look()
		}
		all = slices.Clone(w.seen)
		return nil
	})
	return all, err
}

// look takes what is there now for the list. The caller holds mu.
func (w *World) look() {
	w.seen, w.seenAt = nil, w.now()
	for _, id := range w.sorted() {
		if t := w.things[id]; w.visible(t) {
			w.seen = append(w.seen, t.show())
		}
	}
}

// Free returns the lowest identity of the range that is not held and not taken, and the zone with the fewest things.
func (w *World) Free(ctx context.Context, taken map[string]bool) (r provider.Resource, err error) {
	err = w.do(ctx, Free, "an identity", func() error {
		if w.full() {
			return provider.ErrQuota
		}
		in := map[string]int{}
		for _, t := range w.things {
			in[t.found.Resource.Zone]++
		}
		zone := slices.MinFunc(w.o.Zones, func(a, b string) int { return in[a] - in[b] })
		for n := w.o.First; n <= w.o.Last; n++ {
			if id := strconv.Itoa(n); w.things[id] == nil && !taken[id] {
				r = provider.Resource{ID: id, Zone: zone}
				return nil
			}
		}
		return provider.ErrQuota
	})
	return r, err
}

func (w *World) full() bool {
	n := 0
	for _, t := range w.things {
		if !t.found.Template {
			n++
		}
	}
	return w.filled || w.o.Limit > 0 && n >= w.o.Limit
}

// Task returns how an operation goes.
func (w *World) Task(ctx context.Context, name string) (p provider.Progress, err error) {
	err = w.do(ctx, Task, name, func() error {
		op := w.ops[name]
		if op == nil {
			return provider.ErrNotFound
		}
		p = provider.Progress{Ended: op.ended, Err: op.err}
		for _, line := range op.log {
			p.Log += line + "\n"
		}
		return nil
	})
	return p, err
}

// ReadDrive says whether the drive of an identity has content.
func (w *World) ReadDrive(ctx context.Context, id string) (written bool, err error) {
	err = w.do(ctx, ReadDrive, id, func() error {
		written = w.drives[id] != nil && w.drives[id].content != nil
		return nil
	})
	return written, err
}

// Make begins to make a machine. It is there at once, incomplete, and has its mark in the end.
func (w *World) Make(ctx context.Context, by provider.Mark, r provider.Resource, name string, shape provider.Shape, image string) (op string, err error) {
	err = w.do(ctx, Make, r.ID, func() error {
		switch {
		case w.things[r.ID] != nil:
			return provider.ErrConflict
		case image != "" && w.imageOf(image) == nil:
			return fmt.Errorf("there is no image %s: %w", image, provider.ErrConflict)
		case r.Zone != "" && !slices.Contains(w.o.Zones, r.Zone):
			return fmt.Errorf("there is no zone %s: %w", r.Zone, provider.ErrInvalid)
		case w.full():
			return provider.ErrQuota
		}
		t := w.put(provider.Found{Resource: r, Name: name, Incomplete: true}, &by)
		t.shape, t.image = shape, image
		w.record(Make, by, t)
		op = w.begin(Make, t, func(*operation) { t.found.Incomplete = false }).name
		return nil
	})
	return op, err
}

// change runs a request that changes t under its lock.
func (w *World) change(ctx context.Context, kind Request, by provider.Mark, id string, effect func(t *thing) error) error {
	return w.do(ctx, kind, id, func() error {
		t := w.things[id]
		switch {
		case !w.visible(t):
			return provider.ErrDenied
		case t == nil:
			return provider.ErrNotFound
		case t.found.Locked != "":
			return fmt.Errorf("%s is under way: %w", t.found.Locked, provider.ErrLocked)
		}
		if err := effect(t); err != nil {
			return err
		}
		w.record(kind, by, t)
		return nil
	})
}

// Configure gives a machine its size.
func (w *World) Configure(ctx context.Context, by provider.Mark, id string) error {
	return w.change(ctx, Configure, by, id, func(t *thing) error {
		t.ready = true
		return nil
	})
}

// ready says whether a machine was configured. It is part of what Read answers and no request of its own.
func (w *World) ready(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.things[id] != nil && w.things[id].ready
}

// WriteDrive writes the drive of an identity, over what it held.
func (w *World) WriteDrive(ctx context.Context, by provider.Mark, id string, content []byte) error {
	return w.do(ctx, WriteDrive, id, func() error {
		w.recordDrive(WriteDrive, by, id)
		w.drives[id] = &drive{content: bytes.Clone(content), by: by}
		return nil
	})
}

// EraseDrive blanks the drive of an identity.
func (w *World) EraseDrive(ctx context.Context, by provider.Mark, id string) error {
	return w.do(ctx, EraseDrive, id, func() error {
		if d := w.drives[id]; d != nil {
			w.recordDrive(EraseDrive, by, id)
			d.content = nil
		}
		return nil
	})
}

// Attach puts the drive of an identity into its machine.
func (w *World) Attach(ctx context.Context, by provider.Mark, id string) error {
	return w.change(ctx, Attach, by, id, func(t *thing) error {
		if w.drives[id] == nil {
			return provider.ErrConflict
		}
		t.found.Drive = true
		return nil
	})
}

// Detach takes it out.
func (w *World) Detach(ctx context.Context, by provider.Mark, id string) error {
	return w.change(ctx, Detach, by, id, func(t *thing) error {
		t.found.Drive = false
		return nil
	})
}

// Start begins to power a machine on.
func (w *World) Start(ctx context.Context, by provider.Mark, id string) (op string, err error) {
	err = w.change(ctx, Start, by, id, func(t *thing) error {
		if t.found.Template {
			return provider.ErrConflict
		}
		op = w.begin(Start, t, func(*operation) {
			t.found.Power = provider.PowerOn
			t.boots++
			if d := w.drives[id]; t.boots == 1 && t.found.Drive && d != nil {
				t.booted = bytes.Clone(d.content)
			}
		}).name
		return nil
	})
	return op, err
}

// Stop begins to power a machine off.
func (w *World) Stop(ctx context.Context, by provider.Mark, id string) (op string, err error) {
	err = w.change(ctx, Stop, by, id, func(t *thing) error {
		op = w.begin(Stop, t, func(*operation) { t.found.Power = provider.PowerOff }).name
		return nil
	})
	return op, err
}

// Destroy begins to delete whatever has the identity.
func (w *World) Destroy(ctx context.Context, by provider.Mark, id string) (op string, err error) {
	err = w.change(ctx, Destroy, by, id, func(t *thing) error {
		if t.found.Protected || t.found.Power == provider.PowerOn || w.stoodOn(t) {
			return provider.ErrConflict
		}
		op = w.begin(Destroy, t, func(*operation) { delete(w.things, id) }).name
		return nil
	})
	return op, err
}
