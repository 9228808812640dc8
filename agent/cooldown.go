package agent

import (
	"sync"
	"time"
)

// cooldown holds starts after the engine did not answer: CooldownMin, doubling to
// CooldownMax, until a start succeeds. Nothing that runs is touched by it.
type cooldown struct {
	mu    sync.Mutex
	now   func() time.Time
	last  time.Duration
	until time.Time
}

func newCooldown(now func() time.Time) *cooldown { return &cooldown{now: now} }

// open begins a hold, twice as long as the one before.
func (c *cooldown) open() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = min(max(2*c.last, CooldownMin), CooldownMax)
	c.until = c.now().Add(c.last)
	return c.last
}

// clear ends the hold.
func (c *cooldown) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.until = 0, time.Time{}
}

// left is how long starts are still held.
func (c *cooldown) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		return 0
	}
	return c.until.Sub(c.now())
}
