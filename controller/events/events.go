// Package events is the controller's in-process pub/sub and the one-slot wake-ups that its
// loops wait on. It must never block a publisher and never carry a secret.
package events

import "sync"

// Kind names what happened.
type Kind string

// The kinds of event.
const (
	JobChanged          Kind = "job.changed"
	RunnerChanged       Kind = "runner.changed"
	HostChanged         Kind = "host.changed"
	PoolChanged         Kind = "pool.changed"
	InstallationChanged Kind = "installation.changed"
	ProblemsChanged     Kind = "problems.changed" // the list of what stands; it has no ID
	ProviderChanged     Kind = "provider.changed"
	MachineChanged      Kind = "machine.changed"
	TaskWritten         Kind = "task.written"
)

// Event says that a row was made, changed or deleted; whoever cares reads the row.
type Event struct {
	Kind Kind
	ID   string
}

// Bus fans events out to subscribers. The zero value is ready.
type Bus struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Subscription is one subscriber's bounded queue. Lost says that the queue overflowed, so that
// its owner must read everything again.
type Subscription struct {
	C    chan Event
	bus  *Bus
	mu   sync.Mutex
	lost bool
}

// Subscribe returns a queue of at most buffer events.
func (b *Bus) Subscribe(buffer int) *Subscription {
	s := &Subscription{C: make(chan Event, buffer), bus: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[*Subscription]struct{}{}
	}
	b.subs[s] = struct{}{}
	return s
}

// Close ends the subscription. Its channel is not closed.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.subs, s)
}

// TakeLost says whether events were lost since the last call.
func (s *Subscription) TakeLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lost
	s.lost = false
	return l
}

// Publish hands the event to every subscriber that has room.
func (b *Bus) Publish(k Kind, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		select {
		case s.C <- Event{Kind: k, ID: id}:
		default:
			s.mu.Lock()
			s.lost = true
			s.mu.Unlock()
		}
	}
}

// Wake is a one-slot signal: any number of Set calls before a receive are one.
type Wake struct{ c chan struct{} }

// NewWake returns a wake-up that is not set.
func NewWake() Wake { return Wake{c: make(chan struct{}, 1)} }

// Set wakes the waiter, or the next one.
func (w Wake) Set() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// C is what the waiter receives from.
func (w Wake) C() <-chan struct{} { return w.c }
