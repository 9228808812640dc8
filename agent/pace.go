package agent

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// retry paces attempts: exponential with jitter, and never more than its bound.
type retry struct {
	b     *backoff.ExponentialBackOff
	bound time.Duration
}

func newRetry(first, bound time.Duration) *retry {
	b := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: bound, Multiplier: 2, RandomizationFactor: 0.3}
	b.Reset()
	return &retry{b: b, bound: bound}
}

func (r *retry) next() time.Duration { return min(r.b.NextBackOff(), r.bound) }
func (r *retry) reset()              { r.b.Reset() }

// sleep waits for d; it is false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	return wake(nil).wait(ctx, d) // a bell that nobody can ring
}

// wake is a bell with one slot: ringing it twice before anybody listens is once.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (w wake) up() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// wait returns at the bell or after d; it is false when ctx ended.
func (w wake) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w:
	case <-t.C:
	}
	return ctx.Err() == nil
}
