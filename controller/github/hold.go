package github

import (
	"errors"
	"time"
)

const (
	// MaxHold bounds every stand-down. GitHub's window is an hour: a longer wait is a clock out of step, not an answer.
	MaxHold = time.Hour
	// HoldFallback is the stand-down after a refusal for an exhausted quota that named no instant.
	HoldFallback = 15 * time.Minute
	// SecondaryFallback is the stand-down after a secondary refusal that named no instant, as GitHub's documentation asks.
	SecondaryFallback = time.Minute
)

// Hold keeps one installation from spending quota. The poller and the registration reap share it: whichever is
// refused first sets it (store.HoldInstallation), both honour it, and neither lets it touch another installation.
type Hold struct {
	Until  time.Time
	Reason string
}

// HoldFrom says whether err is GitHub asking to wait, and until when: what GitHub said, at most MaxHold from now,
// and HoldFallback when it said nothing. Any other error is no reason to stand down.
func HoldFrom(err error, now time.Time) (Hold, bool) {
	var limit *LimitError
	if !errors.As(err, &limit) {
		return Hold{}, false
	}
	until := limit.Until
	if until.IsZero() {
		until = now.Add(HoldFallback)
	}
	return Hold{Until: capHold(until, now), Reason: limit.Reason}, true
}

// Held says whether a hold that ends at until binds now. One that ends more than MaxHold ahead was written by a clock
// that has since been set back; it binds nobody, since asking once costs less than waiting for the clock to catch up.
func Held(now, until time.Time) bool {
	return now.Before(until) && until.Sub(now) <= MaxHold
}

func capHold(until, now time.Time) time.Time {
	if latest := now.Add(MaxHold); until.After(latest) {
		return latest
	}
	return until
}
