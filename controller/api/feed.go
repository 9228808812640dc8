package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	// feedBuffer is how many events may come while one frame is rendered.
	feedBuffer = 4096
	// frameOverhead is what a frame costs besides its text, in bytes.
	frameOverhead = 128
)

// feed makes frames of events. Only its own goroutine touches it.
type feed struct {
	hub     *hub
	sub     *events.Subscription
	pending []events.Event // in the order in which they came, each once: what is rendered is the object as it is by then
	waiting map[events.Event]bool
	targets map[events.Event]auth.Target // of what can be deleted
	due     bool                         // something happened since the status was last looked at
	digest  string                       // of the status that was told last
}

func (f *feed) run(ctx context.Context) {
	limits := f.hub.limits
	f.learn(ctx)
	var looked time.Time
	status, idle := time.NewTimer(0), time.NewTimer(limits.Linger)
	defer status.Stop()
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.sub.C:
			f.take(e)
		case <-f.hub.left:
			idle.Reset(limits.Linger)
		case <-idle.C:
			if f.hub.rest() {
				return
			}
		case <-status.C:
			f.refresh(ctx)
			looked, f.due = time.Now(), false
			status.Reset(limits.Heartbeat) // a host falls silent without an event
		}
		for len(f.pending) > 0 && ctx.Err() == nil {
			f.drain()
			f.render(ctx, f.pop())
		}
		if f.sub.TakeLost() {
			f.hub.restart()
		}
		if f.due {
			status.Reset(max(0, limits.Status-time.Since(looked)))
		}
	}
}

// learn notes whose everything is that can be deleted.
func (f *feed) learn(ctx context.Context) {
	for kind, r := range f.hub.kinds {
		if r.targets == nil {
			continue
		}
		all, err := r.targets(ctx)
		if err != nil {
			f.failed(ctx, "cannot read whose objects are that can be deleted", err)
			return
		}
		for id, t := range all {
			f.targets[events.Event{Kind: kind, ID: id}] = t
		}
	}
}

func (f *feed) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		f.hub.s.log.Error(what, "err", err)
	}
}

func (f *feed) take(e events.Event) {
	if e.Kind != events.TaskWritten {
		f.due = true
	}
	_, shown := f.hub.kinds[e.Kind]
	if !shown && e.Kind != events.ProblemsChanged || f.waiting[e] {
		return
	}
	f.waiting[e] = true
	f.pending = append(f.pending, e)
}

// drain takes what has come meanwhile.
func (f *feed) drain() {
	for {
		select {
		case e := <-f.sub.C:
			f.take(e)
		default:
			return
		}
	}
}

func (f *feed) pop() events.Event {
	e := f.pending[0]
	if f.pending = f.pending[1:]; len(f.pending) == 0 {
		f.pending = nil
	}
	delete(f.waiting, e)
	return e
}

// render makes the frame of an object as it is now.
func (f *feed) render(ctx context.Context, e events.Event) {
	if e.Kind == events.ProblemsChanged {
		f.renderProblems(ctx)
		return
	}
	r := f.hub.kinds[e.Kind]
	name := r.name + ".updated"
	view, target, err := r.load(ctx, e.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		name, view, target, err = r.name+".deleted", struct {
			ID string `json:"id"`
		}{e.ID}, f.targets[e], nil
		delete(f.targets, e)
	case err == nil && r.targets != nil:
		f.targets[e] = target
	}
	var body []byte
	if err == nil {
		body, err = bodyOf(view)
	}
	if err != nil {
		f.failed(ctx, "cannot show a change to those who follow events; they are told to read everything again", err)
		f.hub.restart()
		return
	}
	ring := f.hub.current()
	ring.Append(func(n uint64) (frame, int) {
		text := messageOf(name, ring.ID(n), body)
		return frame{n: n, guard: f.hub.guards[e.Kind], target: target, text: text}, len(text) + frameOverhead
	})
}

func (f *feed) tell(x *shared, show func(context.Context, viewer) (any, error)) {
	f.hub.current().Append(func(n uint64) (frame, int) {
		x.set(n, show)
		return frame{n: n, guard: x.guard, shared: x}, frameOverhead
	})
}

// renderProblems tells that the list of problems is another.
func (f *feed) renderProblems(ctx context.Context) {
	s, g := f.hub.s, f.hub.problems.guard
	x, err := s.standing(ctx)
	if err != nil {
		f.failed(ctx, "cannot show the problems to those who follow events; they are told to read everything again", err)
		f.hub.restart()
		return
	}
	f.tell(f.hub.problems, func(ctx context.Context, v viewer) (any, error) {
		hidden, err := s.store.Dismissals(ctx, dismisser(v.who))
		if err != nil {
			return nil, err
		}
		return problemPage(x.of(v.who, *g, hidden), PageParams{Limit: maxPage}, "severity")
	})
}

// refresh tells the status when it has changed. That time passes is no change.
func (f *feed) refresh(ctx context.Context) {
	g := f.hub.status.guard
	c, err := f.hub.s.census(ctx)
	if err != nil {
		f.failed(ctx, "cannot show the status to those who follow events", err)
		return
	}
	all := c.of(auth.Local(), *g)
	all.Uptime = ""
	raw, err := json.Marshal([]any{all, c.jobs, c.runners})
	if err != nil || string(raw) == f.digest {
		return
	}
	f.digest = string(raw)
	f.tell(f.hub.status, func(_ context.Context, v viewer) (any, error) { return c.of(v.who, *g), nil })
}
