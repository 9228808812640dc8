package scheduler

import "time"

// finished is when a runner failed, as well as its row can say.
func finished(r *Runner) time.Time {
	switch {
	case !r.FinishedAt.IsZero():
		return r.FinishedAt
	case !r.StateAt.IsZero():
		return r.StateAt
	default:
		return r.CreatedAt
	}
}

// countFailure counts a failure against the pool. One on a lost host is the host's and not the
// pool's: nothing is placed there any more, so waiting would only keep its jobs from the others.
func (d *pass) countFailure(p *poolWork, r *Runner, at time.Time) {
	if h := d.rooms.byID[r.HostID]; h != nil && h.Lost {
		return
	}
	if at.After(d.now) {
		at = d.now // a clock that runs ahead must not lengthen the wait
	}
	p.failures++
	if at.After(p.failedAt) {
		p.failedAt = at
	}
}

// backoff is how long a pool waits after the last of so many failures: doubled by each, up to the
// longest, and never past the retention, because then the failures it is counted from are gone.
func (t Tunables) backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	wait, most := t.StartBackoff, min(t.MaxStartBackoff, t.FailedRetention)
	for range failures - 1 {
		if wait >= most {
			break
		}
		wait *= 2
	}
	return min(wait, most)
}
