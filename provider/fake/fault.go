package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/provider"
)

// Request is one exchange with the world. A call of the contract makes several.
type Request string

// The requests, and the operations that they begin.
const (
	Read      Request = "read"  // one thing, fresh
	Index     Request = "index" // all things, late
	Free      Request = "free"  // which identities are held
	Task      Request = "task"  // an operation
	ReadDrive Request = "read-drive"

	Make       Request = "make" // an operation
	Configure  Request = "configure"
	WriteDrive Request = "write-drive"
	Attach     Request = "attach"
	Start      Request = "start" // an operation
	Detach     Request = "detach"
	EraseDrive Request = "erase-drive"
	Stop       Request = "stop"    // an operation
	Destroy    Request = "destroy" // an operation
	Import     Request = "import"  // an operation: an image
)

// Mutations are the requests that change something.
var Mutations = []Request{Make, Configure, WriteDrive, Attach, Start, Detach, EraseDrive, Stop, Destroy, Import}

// Changes says whether r changes something.
func (r Request) Changes() bool { return slices.Contains(Mutations, r) }

// Fault breaks a request. Faults of one kind are used in the order they were injected.
type Fault struct {
	// Err is what the caller gets; nil lets the request succeed.
	Err error
	// Took has the request take effect all the same: only its answer is lost.
	Took bool
	// Times is how many requests it breaks: 0 is one, below 0 all until Mend.
	Times int
	// Delay is how long the answer takes, on the world's clock: it is advanced by so much.
	Delay time.Duration
	// Hold keeps the request waiting until it is closed or the call's context ends.
	Hold <-chan struct{}
}

// LostBefore is a request that never arrived, which the caller cannot know; LostAfter one that had its effect and whose answer was lost. A
// request that only reads is ErrTransient then, since it has no effect anyway. NotSent is one that was turned away.
var (
	LostBefore = Fault{Err: fmt.Errorf("the connection broke: %w", provider.ErrUnknownOutcome)}
	LostAfter  = Fault{Err: fmt.Errorf("the connection broke: %w", provider.ErrUnknownOutcome), Took: true}
	NotSent    = Fault{Err: fmt.Errorf("the connection was refused: %w", provider.ErrTransient)}
)

type nthFault struct {
	left int
	f    Fault
	hit  bool
}

// Chaos breaks requests by chance; each field is a share of them, 0 to 1. What a fault that was injected breaks is not broken twice.
type Chaos struct {
	NotSent, LostBefore, LostAfter float64
	Locked                         float64 // of those that change something
	// Fail is the share of operations that come to nothing, Die of those whose worker dies: it leaves what it was at half done and locked.
	Fail, Die float64
}

// Inject breaks the next requests of that kind.
func (w *World) Inject(kind Request, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	w.faults[kind] = append(w.faults[kind], &f)
}

// BreakNth breaks one request, the nth from now (0 is the next), of whatever kind. It returns whether that has happened.
func (w *World) BreakNth(n int, f Fault) (hit func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &nthFault{left: n, f: f}
	w.nth = append(w.nth, b)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return b.hit
	}
}

// Chaos sets what happens by chance from now on.
func (w *World) Chaos(c Chaos) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chaos = c
}

// Mend takes back every fault, what is denied, chaos, and the endings of operations that have not begun.
func (w *World) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.faults)
	clear(w.denied)
	clear(w.endings)
	w.nth, w.chaos, w.frozen = nil, Chaos{}, false
}

// Deny takes the credential's right to such requests away, until Mend; of all when none is named.
func (w *World) Deny(kinds ...Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(kinds) == 0 {
		kinds = append([]Request{Read, Index, Free, Task, ReadDrive}, Mutations...)
	}
	for _, k := range kinds {
		w.denied[k] = true
	}
}

// Requests are all requests so far.
func (w *World) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// do runs one request: it lets time pass, breaks it as scripted, and has its effect under the lock.
func (w *World) do(ctx context.Context, kind Request, id string, effect func() error) error {
	say := func(err error) error {
		if err != nil {
			return fmt.Errorf("cannot %s %s: %w", kind, id, err)
		}
		return nil
	}
	if ctx.Err() != nil {
		return say(fmt.Errorf("%w: %w", provider.ErrTransient, ctx.Err()))
	}
	w.mu.Lock()
	w.requests = append(w.requests, kind)
	f := w.fault(kind)
	w.offset += f.Delay
	w.mu.Unlock()
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
			return say(fmt.Errorf("%w: %w", lost(kind, provider.ErrUnknownOutcome), ctx.Err()))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	if f.Err != nil && !f.Took {
		return say(lost(kind, f.Err))
	}
	if w.denied[kind] {
		return say(provider.ErrDenied)
	}
	if err := effect(); err != nil && (f.Err == nil || !kind.Changes()) {
		return say(err)
	}
	if f.Err != nil {
		return say(lost(kind, f.Err))
	}
	return nil
}

// lost is the class of a lost answer: what only reads had no effect.
func lost(kind Request, err error) error {
	if !kind.Changes() && provider.Class(err) == provider.ErrUnknownOutcome { //nolint:errorlint // Class returns the sentinel itself
		return fmt.Errorf("no answer came: %w", provider.ErrTransient)
	}
	return err
}

// fault is what breaks the next request of that kind. The caller holds mu.
func (w *World) fault(kind Request) Fault {
	for _, b := range w.nth {
		if b.hit {
			continue
		}
		if b.left == 0 {
			b.hit = true
			return b.f
		}
		b.left--
	}
	if fs := w.faults[kind]; len(fs) > 0 {
		f := *fs[0]
		if fs[0].Times > 0 {
			if fs[0].Times--; fs[0].Times == 0 {
				w.faults[kind] = fs[1:]
			}
		}
		return f
	}
	for _, c := range []struct {
		share float64
		f     Fault
		all   bool
	}{{w.chaos.NotSent, NotSent, true}, {w.chaos.LostBefore, LostBefore, true}, {w.chaos.LostAfter, LostAfter, true}, {w.chaos.Locked, Fault{Err: provider.ErrLocked}, false}} {
		if c.share > 0 && w.rng.Float64() < c.share && (c.all || kind.Changes()) {
			return c.f
		}
	}
	return Fault{}
}

// ending is how an operation ends that does not succeed.
type ending struct {
	err error
	die bool
}

// FailNext has the next operation of that kind come to nothing, with err.
func (w *World) FailNext(kind Request, err error) { w.endNext(kind, ending{err: err}) }

// DieNext has the worker of the next operation of that kind die: what it was at stays as it is, locked for ever, and a thing that was
// being made stays incomplete.
func (w *World) DieNext(kind Request) { w.endNext(kind, ending{die: true}) }

func (w *World) endNext(kind Request, e ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endings[kind] = append(w.endings[kind], e)
}

func (w *World) nextEnding(kind Request) (ending, bool) {
	if es := w.endings[kind]; len(es) > 0 {
		w.endings[kind] = es[1:]
		return es[0], true
	}
	if w.chaos.Fail > 0 && w.rng.Float64() < w.chaos.Fail {
		return ending{err: provider.ErrLocked}, true
	}
	return ending{die: true}, w.chaos.Die > 0 && w.rng.Float64() < w.chaos.Die
}

func (e ending) apply(w *World, t *thing, op *operation) {
	switch {
	case e.die:
		op.err = fmt.Errorf("its worker died: %w", provider.ErrUnknownOutcome)
		t.found.Locked = string(op.kind)
	default:
		op.err = fmt.Errorf("cannot %s %s: %w", op.kind, t.found.Resource.ID, e.err)
		if t.found.Incomplete {
			delete(w.things, t.found.Resource.ID)
		}
	}
}
