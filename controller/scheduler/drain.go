package scheduler

import (
	"fmt"
	"slices"
)

// emptying is the host of a runner when it is told to empty; nil when it is not.
func (d *pass) emptying(r *Runner) *room {
	if h := d.rooms.byID[r.HostID]; h != nil && h.Draining {
		return h
	}
	return nil
}

// empty takes the pool's runners off the hosts that are told to empty: those that have no job at once, and busy ones when they have
// finished theirs or the grace of a drain is over. Until they are gone they hold their places under the pool's maximum, but do
// not count as live, so that others are made elsewhere for what they would have done.
func (d *pass) empty(p *poolWork) {
	p.starting = slices.DeleteFunc(p.starting, func(r *Runner) bool {
		h := d.emptying(r)
		if h != nil {
			p.leaving++
			d.withdraws = append(d.withdraws, withdraw(r, h.emptied()))
		}
		return h != nil
	})
	p.idle = slices.DeleteFunc(p.idle, func(r *Runner) bool {
		h := d.emptying(r)
		if h != nil {
			p.leaving++
			d.retires = append(d.retires, retire(r, h.emptied()))
		}
		return h != nil
	})
	for _, r := range p.evicted {
		p.busy--
		p.leaving++
		if p.busyBy != nil {
			p.busyBy[normalise(r.Repository)]--
		}
		d.drains = append(d.drains, drain(r, d.emptying(r)))
	}
}

func (h *room) emptied() string { return fmt.Sprintf("its host %s is being drained", h.Name) }

func drain(r *Runner, h *room) Action {
	return Action{Kind: Drain, PoolID: r.PoolID, RunnerID: r.ID, Reason: h.emptied()}
}
