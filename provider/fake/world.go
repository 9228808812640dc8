// Package fake is a provider in memory: it keeps the contract of provider.Provider, over a World
// that outlives it as a hypervisor outlives a controller, and that a test scripts and breaks. The
// World records whatever is changed in it and whose it was. It must never be used outside of tests
// and demonstrations.
package fake

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/provider"
)

// Options shape a World. The zero value is a fleet of its own with a hundred identities.
type Options struct {
	Fleet string           // whose marks List shows; empty is "fleet"
	Now   func() time.Time // nil is a clock that moves by Advance only
	First int              // lowest identity of the fleet's range; 0 is 9000
	Last  int              // highest; 0 is First+99
	Zones []string         // nil is one, "z1"
	Names string           // prefix that only this fleet's names should have; empty is "zoomies-"
	Limit int              // of things that are no images; 0 is none
	// Blind says that the credential sees only what carries the fleet's mark, as a token of one resource pool does: a read of
	// anything else, of what is half made and of nothing is refused alike.
	Blind bool
	// Lag is how old what List shows may be.
	Lag time.Duration
	// Took is how long each kind of operation takes. Those it does not name take no time, but
	// still end only when they are looked at again.
	Took map[Request]time.Duration
	// Seed of Chaos.
	Seed uint64
}

// World is everything that outlives a Provider. Make it with NewWorld.
type World struct {
	o Options

	mu       sync.Mutex
	offset   time.Duration
	start    time.Time
	rng      *rand.Rand
	serial   int
	things   map[string]*thing // by identity
	drives   map[string]*drive // by identity
	ops      map[string]*operation
	faults   map[Request][]*Fault
	nth      []*nthFault
	denied   map[Request]bool
	chaos    Chaos
	requests []Request
	endings  map[Request][]ending
	audit    []Mutation
	seen     []provider.Found // what List showed last, and
	seenAt   time.Time        // when; zero is never
	frozen   bool
	filled   bool
}

// thing is a resource: a machine, an image or somebody else's.
type thing struct {
	found  provider.Found
	mark   *provider.Mark // also while found does not show it
	serial int            // of all things that ever were
	shape  provider.Shape
	image  string // hash of what it was made from, or is
	ready  bool   // configured
	booted []byte // the drive at the first power-on
	boots  int
	op     *operation // what works on it
}

// drive is the config drive of one identity. Like an ISO it is beside the machine.
type drive struct {
	content []byte // nil is blank
	by      provider.Mark
}

// operation is something that takes time.
type operation struct {
	name  string
	kind  Request
	ends  time.Time
	ended bool
	err   error
	log   []string
	end   func(*operation)
}

// NewWorld makes an empty world.
func NewWorld(o Options) *World {
	o.Fleet, o.Names = cmp.Or(o.Fleet, "fleet"), cmp.Or(o.Names, "zoomies-")
	o.First = cmp.Or(o.First, 9000)
	o.Last = cmp.Or(o.Last, o.First+99)
	if o.Zones == nil {
		o.Zones = []string{"z1"}
	}
	return &World{
		o: o, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rng: rand.New(rand.NewPCG(o.Seed, 1)), //nolint:gosec // chaos has to be repeatable
		things: map[string]*thing{}, drives: map[string]*drive{}, ops: map[string]*operation{},
		faults: map[Request][]*Fault{}, denied: map[Request]bool{}, endings: map[Request][]ending{},
	}
}

// Advance moves the world's clock.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += d
	w.pass()
}

// Now is the world's time.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

func (w *World) now() time.Time {
	if w.o.Now != nil {
		return w.o.Now().Add(w.offset)
	}
	return w.start.Add(w.offset)
}

// Next is how long it is until the next operation ends; false when none is under way.
func (w *World) Next() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, least, found := w.now(), time.Duration(0), false
	for _, op := range w.ops {
		if left := max(op.ends.Sub(now), 0); !op.ended && (!found || left < least) {
			least, found = left, true
		}
	}
	return least, found
}

// pass ends the operations whose time has come, in their order. The caller holds mu.
func (w *World) pass() {
	now := w.now()
	for {
		var due *operation
		for _, op := range w.ops {
			if !op.ended && !op.ends.After(now) && (due == nil || op.ends.Before(due.ends) || op.ends.Equal(due.ends) && op.name < due.name) {
				due = op
			}
		}
		if due == nil {
			return
		}
		due.ended = true
		due.end(due)
	}
}

// begin starts an operation on t; end has its effect, unless t is gone or replaced by then.
func (w *World) begin(kind Request, t *thing, end func(*operation)) *operation {
	w.serial++
	op := &operation{name: fmt.Sprintf("op:%06d:%s:%s", w.serial, kind, t.found.Resource.ID), kind: kind, ends: w.now().Add(w.o.Took[kind])}
	how, scripted := w.nextEnding(kind)
	op.end = func(op *operation) {
		if t.op == op {
			t.op, t.found.Locked = nil, ""
		}
		switch {
		case w.things[t.found.Resource.ID] != t:
			op.err = fmt.Errorf("cannot %s %s, which is gone: %w", kind, t.found.Resource.ID, provider.ErrConflict)
		case scripted:
			how.apply(w, t, op)
		default:
			end(op)
		}
		op.log = append(op.log, fmt.Sprintf("%s %s: %s", kind, t.found.Resource.ID, cmp.Or(text(op.err), "OK")))
	}
	t.op, t.found.Locked = op, string(kind)
	w.ops[op.name] = op
	return op
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// show is what a read finds of t. The caller holds mu.
func (t *thing) show() provider.Found {
	f := t.found
	f.Mark = nil
	if t.mark != nil && !f.Incomplete {
		m := *t.mark
		f.Mark = &m
	}
	return f
}

// visible says whether the credential may see what has an identity. The caller holds mu.
func (w *World) visible(t *thing) bool {
	if !w.o.Blind {
		return true
	}
	return t != nil && !t.found.Incomplete && t.mark != nil && t.mark.Fleet == w.o.Fleet
}

// put adds a thing. The caller holds mu.
func (w *World) put(f provider.Found, mark *provider.Mark) *thing {
	w.serial++
	f.CreatedAt = w.now()
	f.Power = cmp.Or(f.Power, provider.PowerOff)
	f.Resource.Zone = cmp.Or(f.Resource.Zone, w.o.Zones[0])
	f.Mark = nil
	t := &thing{found: f, serial: w.serial}
	if mark != nil {
		m := *mark
		t.mark = &m
	}
	w.things[f.Resource.ID] = t
	return t
}

// sorted are the identities that are held.
func (w *World) sorted() []string { return slices.Sorted(maps.Keys(w.things)) }

// ours says whether List shows f.
func (w *World) ours(f provider.Found) bool {
	if f.Mark != nil {
		return f.Mark.Fleet == w.o.Fleet || w.wears(f)
	}
	return w.wears(f)
}

// wears says whether f has a name or a number that only this fleet's things should have.
func (w *World) wears(f provider.Found) bool {
	n, err := strconv.Atoi(f.Resource.ID)
	return strings.HasPrefix(f.Name, w.o.Names) || err == nil && n >= w.o.First && n <= w.o.Last
}
