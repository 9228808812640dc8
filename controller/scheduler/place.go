package scheduler

import (
	"cmp"
	"slices"
)

// placement is a create: a runner of a pool, on a host, for a job or (nil) to be warm.
type placement struct {
	pool *poolWork
	room *room
	job  *queuedJob
}

// place hands out free slots once every pool's wish is known. Higher priorities come first; pools of
// one priority take one slot each in turn, until the budget or the hosts run out.
func (d *pass) place() {
	shapes := shapes{}
	var backlog []*poolWork
	total := 0
	for _, p := range d.pools {
		if p.want > 0 {
			p.shape = shapes.of(d, p)
			backlog = append(backlog, p)
			total += p.want
		}
	}
	slices.SortFunc(backlog, func(a, b *poolWork) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), compareBacklog(a, b))
	})
	budget := d.set.TickBudget
	if budget <= 0 {
		budget = total
	}
	d.creates = make([]placement, 0, min(budget, total))
	for len(backlog) > 0 {
		n := 1
		for n < len(backlog) && backlog[n].Priority == backlog[0].Priority {
			n++
		}
		budget = d.rounds(backlog[:n], budget)
		backlog = backlog[n:]
	}
}

// rounds serves the pools of one priority, and returns what is left of the budget.
func (d *pass) rounds(line []*poolWork, budget int) int {
	for len(line) > 0 {
		next := line[:0]
		for _, p := range line {
			h := p.shape.fitting.best()
			switch {
			case h == nil:
				p.stop = stopHosts
			case budget == 0:
				p.stop = stopBudget
			default:
				budget--
				d.create(p, h)
				if p.want > 0 {
					next = append(next, p)
				}
			}
		}
		line = next
	}
	return budget
}

func (d *pass) create(p *poolWork, h *room) {
	j := p.next()
	if j != nil {
		j.fate, j.host = answered, h
	}
	d.creates = append(d.creates, placement{p, h, j})
	h.free--
	p.want--
	p.created++
}

// compareBacklog puts the pool whose oldest unanswered job has waited longest first, so that a slot
// that comes free does not always go to the same pool; then by name.
func compareBacklog(a, b *poolWork) int {
	x, y := a.next(), b.next()
	switch {
	case x == nil && y == nil:
	case x == nil:
		return 1
	case y == nil:
		return -1
	default:
		if c := x.QueuedAt.Compare(y.QueuedAt); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.order, b.order)
}
