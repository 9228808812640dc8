package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
)

// How much of each kind of work runs at once for one installation. Together they stay below the hundred calls that GitHub
// takes of one App at a time, and one installation that GitHub answers slowly keeps no other waiting.
const (
	mintersPerInstallation  = 16
	retirersPerInstallation = 8
	cleanersPerInstallation = 8
)

// The waits before work that failed is begun again, however often it is asked for meanwhile.
const (
	crewRetryMin  = 5 * time.Second
	crewRetryMax  = 5 * time.Minute
	crewRetryHeld = 30 * time.Second // GitHub asked us to wait: nothing was tried
)

// crew does one kind of work in the background: each item once at a time, a bounded number at once for each group, and a
// failed one not again before a while.
type crew struct {
	now   func() time.Time
	limit int
	wake  *events.Wake // of the loop that finds the work; nil where its timer is soon enough

	mu    sync.Mutex
	busy  map[string]bool  // whether it was asked for again since it was begun
	later map[string]retry // items that failed
	slots map[string]chan struct{}
}

type retry struct {
	at   time.Time
	wait time.Duration
}

func newCrew(now func() time.Time, limit int) *crew {
	return &crew{now: now, limit: limit, busy: map[string]bool{}, later: map[string]retry{}, slots: map[string]chan struct{}{}}
}

// begin says whether the caller is the one to work on id now.
func (k *crew) begin(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, busy := k.busy[id]; busy {
		k.busy[id] = true
		return false
	}
	if k.now().Before(k.later[id].at) {
		return false
	}
	k.busy[id] = false
	return true
}

// end notes how the work on id went. It says whether somebody asked for it meanwhile: what they knew, the work may have begun too
// early to see.
func (k *crew) end(id string, err error) (asked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked = k.busy[id]
	delete(k.busy, id)
	now := k.now()
	switch {
	case err == nil:
		delete(k.later, id)
	case errors.Is(err, errHeld):
		k.later[id] = retry{at: now.Add(crewRetryHeld)}
	default:
		wait := min(max(crewRetryMin, 2*k.later[id].wait), crewRetryMax)
		k.later[id] = retry{now.Add(wait), wait}
	}
	for other, r := range k.later { // of items that nobody asked for again
		if now.Sub(r.at) > crewRetryMax {
			delete(k.later, other)
		}
	}
	return asked
}

func (k *crew) slot(group string) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.slots[group]
	if !ok {
		s = make(chan struct{}, k.limit)
		k.slots[group] = s
	}
	return s
}

// spawn has k do f in the background. group is the installation whose GitHub it asks.
func (c *Controller) spawn(ctx context.Context, k *crew, group, id string, f func(context.Context) error) {
	if !k.begin(id) {
		return
	}
	slot := k.slot(group)
	c.work.Go(func() {
		var err error
		defer func() {
			if k.end(id, err) && k.wake != nil {
				k.wake.Set()
			}
		}()
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			return
		}
		if err = f(ctx); ctx.Err() != nil {
			err = nil
		}
	})
}
