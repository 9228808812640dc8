package scheduler

import "time"

// demand works out how many runners a pool should have.
func (d *pass) demand(p *poolWork) {
	d.admit(p)
	if p.Enabled {
		p.desired = min(max(p.Min, p.busy+len(p.eligible), 0), p.max())
	}
}

// admit picks the jobs that count: those that have waited out the scale-up delay, as far as the
// limit of their repository goes.
func (d *pass) admit(p *poolWork) {
	var admitted map[string]int
	if p.RepoLimit > 0 {
		admitted = map[string]int{}
	}
	p.eligible = make([]*queuedJob, 0, len(p.queue))
	for _, j := range p.queue {
		if d.waited(j) < p.ScaleUpDelay {
			j.fate = delayed
			p.delayed++
			continue
		}
		if admitted != nil {
			repo := normalise(j.Repository)
			if p.active(repo)+admitted[repo] >= p.RepoLimit {
				j.fate = deferred
				p.deferred++
				continue
			}
			admitted[repo]++
		}
		p.eligible = append(p.eligible, j)
	}
}

// active is how many runners of the pool a repository keeps busy. A busy runner and its job in
// progress are the same one; a job on a runner that is told to drain is known only as a job.
func (p *poolWork) active(repo string) int { return max(p.busyBy[repo], p.running[repo]) }

// waited is how long a job has been queued. GitHub's clock may be ahead of ours; a job whose time
// nobody knows has waited for ever.
func (d *pass) waited(j *queuedJob) time.Duration { return max(d.now.Sub(j.QueuedAt), 0) }

// cover finds the eligible jobs that no starting or idle runner is there for. A runner covers the
// job that it was made for if that still waits; the other runners cover the oldest of the rest,
// since GitHub gives a runner whichever job comes first.
func (p *poolWork) cover() {
	spare := len(p.starting) + len(p.idle)
	if spare >= len(p.eligible) {
		for _, j := range p.eligible {
			j.fate = covered
		}
		return
	}
	if spare > 0 {
		made := make(map[string]struct{}, spare)
		for _, runners := range [][]*Runner{p.starting, p.idle} {
			for _, r := range runners {
				if r.DemandJobID != "" {
					made[r.DemandJobID] = struct{}{}
				}
			}
		}
		for _, j := range p.eligible {
			if _, ok := made[j.ID]; ok {
				j.fate = covered
				spare--
			}
		}
	}
	p.answers = make([]*queuedJob, 0, len(p.eligible)-spare)
	for _, j := range p.eligible {
		switch {
		case j.fate == covered:
		case spare > 0:
			j.fate = covered
			spare--
		default:
			p.answers = append(p.answers, j)
		}
	}
}

// grow says how many runners the pool may create now. Draining runners count towards the maximum
// until they are gone, so that it holds at every moment.
func (d *pass) grow(p *poolWork) {
	missing := p.desired - p.live()
	if missing <= 0 {
		return
	}
	p.short = missing
	if p.Paused != nil {
		p.stop = stopPaused
		return
	}
	if p.Held != "" {
		p.stop, p.stopUntil = stopHeld, p.HeldUntil
		return
	}
	if until := p.failedAt.Add(d.set.backoff(p.failures)); p.failures > 0 && d.now.Before(until) {
		p.stop, p.stopUntil = stopBackoff, until
		return
	}
	p.want = max(min(missing, p.max()-p.live()-p.leaving), 0)
	if p.want < missing {
		p.stop = stopLeaving
	}
}

// next is the job that the pool's next create answers; nil for a warm runner.
func (p *poolWork) next() *queuedJob {
	if p.created < len(p.answers) {
		return p.answers[p.created]
	}
	return nil
}
