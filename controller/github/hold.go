package github

import "time"

const (
	// MaxHold bounds every stand-down. GitHub's window is an hour: a longer wait is a clock out of step, not an answer.
	MaxHold = time.Hour
	// HoldFallback is the stand-down after a refusal for an exhausted quota that named no instant.
	HoldFallback = 15 * time.Minute
	// SecondaryFallback is the stand-down after a secondary refusal that named no instant, as GitHub's documentation asks.
	SecondaryFallback = time.Minute
)

// Held says whether a hold that ends at until binds now. A hold is one installation's: the poller and the registration
// reap share it, whichever is refused first sets it with the LimitError's instant (store.HoldInstallation), and neither
// lets it touch another installation. One that ends more than MaxHold ahead was written by a clock that has since been
// set back; it binds nobody, since asking once costs less than waiting for the clock to catch up.
func Held(now, until time.Time) bool {
	return now.Before(until) && until.Sub(now) <= MaxHold
}

func capHold(until, now time.Time) time.Time {
	if latest := now.Add(MaxHold); until.After(latest) {
		return latest
	}
	return until
}
