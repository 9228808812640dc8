package github

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func TestHeld(t *testing.T) {
	t.Parallel()
	if Held(noon, time.Time{}) || Held(noon, noon) || !Held(noon, noon.Add(time.Second)) || !Held(noon, noon.Add(MaxHold)) || Held(noon, noon.Add(MaxHold+time.Second)) {
		t.Error("a hold binds from now until it ends, if that is within the hour")
	}
}

func TestShouldPoll(t *testing.T) {
	t.Parallel()
	const every = time.Minute
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	for _, tc := range []struct {
		name  string
		facts PollFacts
		want  PollDepth
	}{
		{"new", PollFacts{}, PollFull},
		{"quiet, or its webhooks reach nobody", PollFacts{LastDeliveryAt: ago(time.Hour), LastPollAt: ago(every), LastFullAt: ago(every)}, PollFull},
		{"never a webhook", PollFacts{LastPollAt: ago(every), LastFullAt: ago(every)}, PollFull},
		{"polled just now", PollFacts{LastPollAt: ago(every - 1)}, PollNone},
		{"webhooks arrive", PollFacts{LastDeliveryAt: ago(every), LastPollAt: ago(every), LastFullAt: ago(5 * every)}, PollSpot},
		{"webhooks arrive, full poll due", PollFacts{LastDeliveryAt: ago(every), LastPollAt: ago(every), LastFullAt: ago(10 * every)}, PollFull},
		{"webhooks arrive, no full poll yet", PollFacts{LastDeliveryAt: ago(0)}, PollFull},
		{"held", PollFacts{HoldUntil: noon.Add(time.Second)}, PollNone},
		{"hold over", PollFacts{HoldUntil: noon}, PollFull},
		{"hold from a wrong clock", PollFacts{HoldUntil: noon.Add(2 * time.Hour)}, PollFull},
		{"poll from a wrong clock", PollFacts{LastPollAt: noon.Add(time.Hour), LastFullAt: noon.Add(time.Hour)}, PollFull},
	} {
		got := ShouldPoll(noon, tc.facts, every)
		if got.Depth != tc.want || got.Reason == "" || !got.Next.After(noon) {
			t.Errorf("%s: got %+v, want %s", tc.name, got, tc.want)
		}
	}
}

// A2: a job whose one "queued" delivery is lost must start within the poll interval, whatever else is delivered, and a
// stand-down is the only thing that may delay it.
func TestLostDeliveryIsLookedForWithinAnIntervalProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		interval := time.Duration(rapid.IntRange(10, 300).Draw(rt, "interval")) * time.Second
		facts := PollFacts{}
		now := noon
		var lastPoll, lastFull time.Time
		spots := 0
		for range 200 {
			if rapid.IntRange(0, 2).Draw(rt, "delivery") == 0 {
				facts.LastDeliveryAt = now.Add(-time.Duration(rapid.Int64Range(0, int64(interval)).Draw(rt, "age")))
			}
			if rapid.IntRange(0, 19).Draw(rt, "hold") == 0 {
				facts.HoldUntil = now.Add(time.Duration(rapid.Int64Range(1, int64(MaxHold)).Draw(rt, "for")))
			}
			d := ShouldPoll(now, facts, interval)
			held := Held(now, facts.HoldUntil)
			if held != (d.Depth == PollNone && d.Next.Equal(facts.HoldUntil)) && held {
				rt.Fatalf("held, but %+v", d)
			}
			if !held && d.Depth == PollNone && now.Sub(lastPoll) >= interval {
				rt.Fatalf("not held and not polled for %s", now.Sub(lastPoll))
			}
			if d.Depth != PollNone && !lastPoll.IsZero() && now.Sub(lastPoll) < interval {
				rt.Fatalf("polled again after %s", now.Sub(lastPoll))
			}
			switch d.Depth {
			case PollNone:
			case PollSpot:
				spots++
				if now.Sub(lastFull) >= pollFullEvery*interval {
					rt.Fatalf("no full poll for %s", now.Sub(lastFull))
				}
			case PollFull:
				lastFull, facts.LastFullAt, spots = now, now, 0
			}
			if spots >= pollFullEvery {
				rt.Fatalf("%d spot polls in a row", spots)
			}
			if d.Depth != PollNone {
				lastPoll, facts.LastPollAt = now, now
			}
			if !d.Next.After(now) {
				rt.Fatalf("%+v would spin", d)
			}
			now = d.Next
		}
	})
}
