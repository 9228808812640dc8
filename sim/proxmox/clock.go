package proxmox

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Clock is the simulation's time. Both kinds of it work: Real (also in a testing/synctest bubble, over Pipes) and Virtual.
type Clock interface {
	Now() time.Time
	// Sleep waits, or returns ctx's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Real is the machine's own clock.
type Real struct{}

// Now is the time.
func (Real) Now() time.Time { return time.Now() }

// Sleep waits.
func (Real) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the context's own
	}
}

// Virtual is a clock that jumps to the next moment that somebody waits for as soon as nobody works: a request that is being
// answered, a worker of a task, and a joined client that does not wait.
//
// Without a joined client everything that was begun has ended by the time a client looks again. A test that wants to see what is
// under way joins, and sleeps by its Client. Either all clients of a simulation join or none.
type Virtual struct {
	mu     sync.Mutex
	now    time.Time
	busy   int // who works
	joined int
	queue  sleepers
	manual bool
}

// NewVirtual makes a clock that stands at start.
func NewVirtual(start time.Time) *Virtual { return &Virtual{now: start} }

// NewManual makes a clock that only Advance moves.
func NewManual(start time.Time) *Virtual { return &Virtual{now: start, manual: true} }

type sleeper struct {
	at     time.Time
	woken  chan struct{}
	weight int // how many become busy when it wakes
	index  int
}

type sleepers []*sleeper //nolint:recvcheck // container/heap wants both

func (q sleepers) Len() int           { return len(q) }
func (q sleepers) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q sleepers) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].index, q[j].index = i, j }

// Push adds a sleeper.
func (q *sleepers) Push(x any) {
	if s, ok := x.(*sleeper); ok {
		s.index = len(*q)
		*q = append(*q, s)
	}
}

// Pop takes the last away.
func (q *sleepers) Pop() any {
	old := *q
	s := old[len(old)-1]
	*q, s.index = old[:len(old)-1], -1
	return s
}

// Now is where the clock stands.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// Sleep waits until the clock has moved by d. It is for those who have not joined.
func (v *Virtual) Sleep(ctx context.Context, d time.Duration) error { return v.sleep(ctx, d, 0) }

// Advance moves the clock, and wakes on the way who waits for a moment up to there.
func (v *Virtual) Advance(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	to := v.now.Add(d)
	for len(v.queue) > 0 && !v.queue[0].at.After(to) {
		v.wake()
	}
	v.now = to
}

// Sleeping is how many wait on the clock.
func (v *Virtual) Sleeping() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.queue)
}

// Client is a client whose work holds the clock.
type Client struct{ v *Virtual }

// Join makes a client. Time stands while it works, and moves while it sleeps or waits for an answer. It must leave when it ends.
func (v *Virtual) Join() Client {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.joined++
	v.busy++
	return Client{v}
}

// Now is where the clock stands.
func (c Client) Now() time.Time { return c.v.Now() }

// Sleep lets the clock move by d.
func (c Client) Sleep(ctx context.Context, d time.Duration) error { return c.v.sleep(ctx, d, 1) }

// Leave ends the client.
func (c Client) Leave() {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	c.v.joined--
	c.v.busy--
	c.v.jump()
}

func (v *Virtual) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy++
}

func (v *Virtual) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy--
	v.jump()
}

// pause is the sleep of a request that is being answered (its joined client waits with it) or of a worker.
func (v *Virtual) pause(ctx context.Context, d time.Duration, request bool) error {
	v.mu.Lock()
	weight := 1
	if request && v.joined > 0 {
		weight = 2
	}
	v.mu.Unlock()
	return v.sleep(ctx, d, weight)
}

func (v *Virtual) sleep(ctx context.Context, d time.Duration, weight int) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err() //nolint:wrapcheck // the context's own
	}
	s := &sleeper{woken: make(chan struct{}), weight: weight}
	v.mu.Lock()
	s.at = v.now.Add(d)
	heap.Push(&v.queue, s)
	v.busy -= weight
	v.jump()
	v.mu.Unlock()
	select {
	case <-s.woken:
		return nil
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.index >= 0 {
		heap.Remove(&v.queue, s.index)
		v.busy += weight
	}
	return ctx.Err() //nolint:wrapcheck // the context's own
}

// jump moves to the next moment when nobody works. Called under mu.
func (v *Virtual) jump() {
	for !v.manual && v.busy <= 0 && len(v.queue) > 0 {
		v.wake()
	}
}

func (v *Virtual) wake() {
	s, ok := heap.Pop(&v.queue).(*sleeper)
	if !ok {
		return
	}
	if s.at.After(v.now) {
		v.now = s.at
	}
	v.busy += s.weight
	close(s.woken)
}
