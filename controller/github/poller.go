package github

import (
	"fmt"
	"time"
)

// PollDepth is how much of an installation one poll looks at.
type PollDepth int

// The depths, from free to dear.
const (
	PollNone PollDepth = iota // leave it alone
	PollSpot                  // SpotJobs: queued runs, and some of those in progress
	PollFull                  // ActiveJobs
)

func (d PollDepth) String() string {
	switch d {
	case PollSpot:
		return "spot"
	case PollFull:
		return "full"
	default:
		return "none"
	}
}

const (
	// pollArriving is for how many intervals after its last delivery an installation's webhooks count as arriving.
	pollArriving = 2
	// pollFullEvery is how many intervals pass between full polls while they do.
	pollFullEvery = 10
)

// PollFacts is what is known of one installation. Zero times mean never.
type PollFacts struct {
	LastDeliveryAt time.Time // a webhook credited to this installation
	HoldUntil      time.Time
	LastPollAt     time.Time // any depth, begun
	LastFullAt     time.Time // the last full poll that ended without an error
}

// PollDecision says what to do now, why, and when to ask again.
type PollDecision struct {
	Depth  PollDepth
	Reason string
	Next   time.Time
}

// ShouldPoll decides for one installation, from its own facts alone: another's deliveries do not silence it, and
// another's refusal does not stop it.
//
// Without recent deliveries it is polled in full every interval: a quiet installation and one whose webhooks reach nobody
// look alike from here. With deliveries (one within the last two intervals) full polls are ten intervals apart, since
// that is what costs quota, but deliveries for other jobs prove nothing about a lost one, so every interval still has a
// spot poll. Hence the bound on a single lost "queued" delivery: a job whose run is queued, and one whose run is in
// progress among at most 20, is found within one interval; in a fleet with n > 20 runs in progress within n/20 intervals,
// rounded up, and never later than ten, as long as GitHub asks for no stand-down. (Spot polls pass over runs that wait for
// a deployment gate, whose other jobs the full poll finds.)
func ShouldPoll(now time.Time, f PollFacts, interval time.Duration) PollDecision {
	if Held(now, f.HoldUntil) {
		return PollDecision{Reason: "GitHub asked this installation to wait", Next: f.HoldUntil}
	}
	due := after(now, f.LastPollAt, interval)
	if due.After(now) {
		return PollDecision{Reason: "polled less than an interval ago", Next: due}
	}
	next := now.Add(interval)
	quiet := f.LastDeliveryAt.IsZero() || now.Sub(f.LastDeliveryAt) > pollArriving*interval
	switch {
	case quiet && f.LastDeliveryAt.IsZero():
		return PollDecision{Depth: PollFull, Reason: "no webhook of this installation has ever arrived", Next: next}
	case quiet:
		return PollDecision{Depth: PollFull, Reason: fmt.Sprintf("no webhook of this installation in the last %s", pollArriving*interval), Next: next}
	case !after(now, f.LastFullAt, pollFullEvery*interval).After(now):
		return PollDecision{Depth: PollFull, Reason: fmt.Sprintf("webhooks arrive; the last full poll is %s ago or more", pollFullEvery*interval), Next: next}
	}
	return PollDecision{Depth: PollSpot, Reason: "webhooks arrive; looking only for one that was lost", Next: next}
}

// after returns when wait has passed since last. A last that is in the future was written before the clock was set back,
// and counts as never.
func after(now, last time.Time, wait time.Duration) time.Time {
	if last.IsZero() || last.After(now) {
		return now
	}
	return last.Add(wait)
}
