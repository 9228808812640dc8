package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// reap clears what is over: failed runners past their retention, starting ones past the provision
// timeout, idle ones past their lifetime. Busy and draining runners are never touched.
func (d *pass) reap(p *poolWork) {
	for _, r := range p.failed {
		if at := finished(r); d.now.Sub(at) >= d.set.FailedRetention {
			d.removes = append(d.removes, remove(r, d.set.FailedRetention))
		} else {
			d.countFailure(p, r, at)
		}
	}
	p.starting = d.reapStarting(p, p.starting)

	lifetime := p.MaxLifetime
	if lifetime <= 0 {
		lifetime = d.set.MaxLifetime
	}
	if lifetime <= 0 {
		return
	}
	p.idle = slices.DeleteFunc(p.idle, func(r *Runner) bool {
		age := d.now.Sub(r.CreatedAt)
		if age < lifetime {
			return false
		}
		p.leaving++
		d.retires = append(d.retires, retire(r, fmt.Sprintf("it is idle and %s old, past its lifetime of %s", span(age), span(lifetime))))
		return true
	})
}

// reapStarting fails the runners that did not come online in time, and returns the others. One that
// is failed frees its host slot at once. A nil pool is one that is gone.
func (d *pass) reapStarting(p *poolWork, starting []*Runner) []*Runner {
	return slices.DeleteFunc(starting, func(r *Runner) bool {
		age := d.now.Sub(r.CreatedAt)
		if age < d.set.ProvisionTimeout {
			return false
		}
		d.rooms.occupy(r.HostID, -1)
		if p != nil {
			d.countFailure(p, r, d.now)
		}
		d.fails = append(d.fails, Action{Kind: Fail, PoolID: r.PoolID, RunnerID: r.ID,
			Reason: fmt.Sprintf("it is %s after %s, past the provision timeout of %s", r.State, span(age), span(d.set.ProvisionTimeout))})
		return true
	})
}

// reapStrays clears away the runners of pools that are gone.
func (d *pass) reapStrays() {
	var starting []*Runner
	for _, r := range d.strays {
		switch r.State {
		case failed:
			if d.now.Sub(finished(r)) >= d.set.FailedRetention {
				d.removes = append(d.removes, remove(r, d.set.FailedRetention))
			}
		case idle:
			d.retires = append(d.retires, retire(r, "its pool is gone"))
		case provisioning, registering:
			starting = append(starting, r)
		case busy:
			if h := d.emptying(r); h != nil {
				d.drains = append(d.drains, drain(r, h))
			}
		}
	}
	for _, r := range d.reapStarting(nil, starting) {
		d.withdraws = append(d.withdraws, withdraw(r, "its pool is gone"))
	}
}

// shrink takes away what is more than desired: starting runners at once, newest first, and then
// idle ones past the idle timeout, longest idle first. A disabled pool keeps neither.
func (d *pass) shrink(p *poolWork) {
	surplus := p.live() - p.desired
	if surplus <= 0 {
		return
	}
	slices.SortFunc(p.starting, func(a, b *Runner) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	n := min(surplus, len(p.starting))
	for _, r := range p.starting[:n] {
		d.withdraws = append(d.withdraws, withdraw(r, d.surplusReason(p)))
	}
	p.starting = p.starting[n:]
	surplus -= n

	slices.SortFunc(p.idle, func(a, b *Runner) int {
		return cmp.Or(a.StateAt.Compare(b.StateAt), strings.Compare(a.ID, b.ID))
	})
	n = 0
	for ; n < min(surplus, len(p.idle)); n++ {
		r := p.idle[n]
		since := d.now.Sub(r.StateAt)
		why := "pool " + p.Name + " is disabled"
		if p.Enabled {
			if since < p.IdleTimeout {
				break
			}
			why = fmt.Sprintf("it has been idle for %s, past the idle timeout of %s, and pool %s needs %d of %d",
				span(since), span(p.IdleTimeout), p.Name, p.desired, p.was)
		}
		d.retires = append(d.retires, retire(r, why))
	}
	p.idle = p.idle[n:]
}

func (d *pass) surplusReason(p *poolWork) string {
	if !p.Enabled {
		return "pool " + p.Name + " is disabled"
	}
	return fmt.Sprintf("it is not needed any more: pool %s needs %s and has %d", p.Name, count(p.desired, "runner"), p.was)
}

func remove(r *Runner, retention time.Duration) Action {
	return Action{Kind: Remove, PoolID: r.PoolID, RunnerID: r.ID,
		Reason: fmt.Sprintf("it failed more than %s ago", span(retention))}
}

func retire(r *Runner, why string) Action {
	return Action{Kind: Retire, PoolID: r.PoolID, RunnerID: r.ID, Reason: why}
}

func withdraw(r *Runner, why string) Action {
	return Action{Kind: Withdraw, PoolID: r.PoolID, RunnerID: r.ID, Reason: why}
}
