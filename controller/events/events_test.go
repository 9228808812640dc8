package events_test

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/events"
)

func TestPublishNeverBlocksAndSaysWhatWasLost(t *testing.T) {
	t.Parallel()
	var b events.Bus
	slow, quick := b.Subscribe(1), b.Subscribe(8)
	for range 3 {
		b.Publish(events.JobChanged, "job_1")
	}
	if got := len(quick.C); got != 3 {
		t.Errorf("the quick subscriber has %d events, want 3: a slow one must not cost it any", got)
	}
	if !slow.TakeLost() || slow.TakeLost() {
		t.Error("the slow subscriber must be told once that it lost events")
	}
	if quick.TakeLost() {
		t.Error("the quick subscriber lost nothing")
	}
	quick.Close()
	b.Publish(events.JobChanged, "job_1")
	if got := len(quick.C); got != 3 {
		t.Errorf("a closed subscription still gets events: %d", got)
	}
}

func TestWakeIsOneSlot(t *testing.T) {
	t.Parallel()
	w := events.NewWake()
	w.Set()
	w.Set()
	<-w.C()
	select {
	case <-w.C():
		t.Error("two sets before a receive are one wake-up")
	default:
	}
}
