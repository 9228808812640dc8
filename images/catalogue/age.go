package catalogue

import "time"

// Verdict says whether a pinned runner is still fit to use.
type Verdict string

// The verdicts.
const (
	Current Verdict = "current"
	Aging   Verdict = "aging"   // build new images now
	Overdue Verdict = "overdue" // GitHub may refuse the runner from one day to the next
)

// GitHub lets a runner that does not update itself fall 30 days behind a new release, and then
// sends it no more jobs. Without the network only the pin's own age is known, so the days are
// counted from its release: the earliest that the rule can bite.
const (
	AgingDays   = 20
	OverdueDays = 30
)

// Age returns how many whole days before now r was released, and what that means.
func (r Release) Age(now time.Time) (days int, verdict Verdict) {
	days = max(0, int(now.Sub(r.Released.Time())/(24*time.Hour)))
	switch {
	case days >= OverdueDays:
		return days, Overdue
	case days >= AgingDays:
		return days, Aging
	}
	return days, Current
}
