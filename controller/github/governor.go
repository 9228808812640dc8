package github

import (
	"context"
	"fmt"
	"time"
)

const (
	// MintsPerMinute is how many registrations may be minted in any 60 seconds, per App. GitHub's secondary limit is
	// reached at about 180; a Governor's own error is at most Concurrency, the calls it let go that are not yet sent.
	MintsPerMinute = 150
	// Concurrency is how many mints may be in flight. GitHub refuses the hundredth concurrent call of an App.
	Concurrency = 16

	mintWindow = time.Minute
)

// Governor keeps minting below GitHub's own ceiling: first come first served, in bursts as large as the window allows.
// Every client of one App shares one.
type Governor struct {
	now   func() time.Time
	slots chan struct{} // one per call in flight
	turn  chan struct{} // held by the first in line; senders on a channel are served in order
	past  []time.Time   // when the last len(past) mints were let go, a ring; guarded by turn
	next  int           // the oldest of them
}

// NewGovernor allows perMinute mints in any trailing 60 seconds; 0 or less is MintsPerMinute. A nil now is time.Now.
func NewGovernor(perMinute int, now func() time.Time) *Governor {
	if perMinute <= 0 {
		perMinute = MintsPerMinute
	}
	if now == nil {
		now = time.Now
	}
	return &Governor{
		now:   now,
		slots: make(chan struct{}, Concurrency),
		turn:  make(chan struct{}, 1),
		past:  make([]time.Time, perMinute),
	}
}

// Do runs mint when the window has room, with at most Concurrency running at once. The error is mint's, or the
// context's when it ended first; then mint was not called.
func (g *Governor) Do(ctx context.Context, mint func(context.Context) error) error {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return waitError(ctx)
	}
	if err := g.Wait(ctx); err != nil {
		return err
	}
	return mint(ctx)
}

// Wait returns when one more mint is allowed, and counts it. It fails only when ctx ends; then nothing is counted.
func (g *Governor) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return waitError(ctx)
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return waitError(ctx)
	}
	for {
		now := g.now()
		wait := g.room(now)
		if wait <= 0 {
			g.past[g.next] = now
			g.next = (g.next + 1) % len(g.past)
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return waitError(ctx)
		}
	}
}

// room returns how long until the oldest counted mint leaves the window. A clock that was set back must not block minting
// for longer than a window, so mints of the future count as of now.
func (g *Governor) room(now time.Time) time.Duration {
	for i, t := range g.past {
		if t.After(now) {
			g.past[i] = now
		}
	}
	oldest := g.past[g.next]
	if oldest.IsZero() {
		return 0
	}
	return oldest.Add(mintWindow).Sub(now)
}

func waitError(ctx context.Context) error {
	return fmt.Errorf("cannot wait for a turn to mint a runner: %w", ctx.Err())
}
