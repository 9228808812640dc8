package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
)

// A crew works on each item once at a time and on a bounded number of each group; another group does not wait for it.
func TestCrewIsBoundedPerGroup(t *testing.T) {
	t.Parallel()
	c, k := &Controller{}, newCrew(time.Now, 3)
	var now, peak, done atomic.Int32
	open := make(chan struct{})
	for i := range 20 {
		for range 2 { // the second is the same item, and is not begun
			c.spawn(t.Context(), k, "acme", fmt.Sprint(i), func(context.Context) error {
				peak.Store(max(peak.Load(), now.Add(1)))
				<-open
				now.Add(-1)
				done.Add(1)
				return nil
			})
		}
	}
	other := make(chan struct{})
	c.spawn(t.Context(), k, "globex", "other", func(context.Context) error { close(other); return nil })
	<-other
	close(open)
	c.work.Wait()
	if peak.Load() > 3 || done.Load() != 20 {
		t.Errorf("%d at once of 3, %d done of 20", peak.Load(), done.Load())
	}
}

// What failed is not begun again before its wait is over, which doubles; what succeeded may be at once.
func TestCrewWaitsAfterAFailure(t *testing.T) {
	t.Parallel()
	clk := &clock{}
	k := newCrew(clk.now, 1)
	for _, wait := range []time.Duration{crewRetryMin, 2 * crewRetryMin, 4 * crewRetryMin} {
		if !k.begin("x") || k.begin("x") {
			t.Fatal("an item is begun once at a time")
		}
		k.end("x", errors.New("no"))
		clk.advance(wait - time.Second)
		if k.begin("x") {
			t.Fatalf("begun again before %s were over", wait)
		}
		clk.advance(time.Second)
	}
	if !k.begin("x") {
		t.Fatal("not begun after the wait")
	}
	k.end("x", nil)
	if !k.begin("x") {
		t.Error("not begun after a success")
	}
	k.end("x", fmt.Errorf("%w until noon", errHeld))
	clk.advance(crewRetryHeld)
	if !k.begin("x") {
		t.Error("a hold must not make the wait grow")
	}
}

// What somebody asks for while it is under way may be news that the work began too early to see: the loop looks again.
func TestCrewLooksAgainWhenItWasAskedMeanwhile(t *testing.T) {
	t.Parallel()
	c, k, wake := &Controller{}, newCrew(time.Now, 1), events.NewWake()
	k.wake = &wake
	open := make(chan struct{})
	work := func(context.Context) error { <-open; return nil }
	c.spawn(t.Context(), k, "acme", "x", work)
	c.spawn(t.Context(), k, "acme", "x", work)
	close(open)
	c.work.Wait()
	select {
	case <-wake.C():
	default:
		t.Error("nobody looks again")
	}
	c.spawn(t.Context(), k, "acme", "x", work)
	c.work.Wait()
	select {
	case <-wake.C():
		t.Error("somebody looks again although nobody asked")
	default:
	}
}
