package scheduler

// ranking is a heap of the hosts that fit a shape, the best one first. Hosts only fill up while
// runners are placed, so a spot whose number is too high is put right when it comes to the top.
type ranking []spot

type spot struct {
	*room
	free int // as it was when the spot was last put in its place
}

// better is the order in which hosts are filled: most free slots first, ties by name.
func better(a, b *spot) bool {
	if a.free != b.free {
		return a.free > b.free
	}
	return a.order < b.order
}

// build makes a heap of spots in any order.
func (r ranking) build() {
	for i := len(r)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
}

// sink moves spot i down to where nothing below it is better.
func (r ranking) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(r) {
			return
		}
		if right := child + 1; right < len(r) && better(&r[right], &r[child]) {
			child = right
		}
		if better(&r[i], &r[child]) {
			return
		}
		r[i], r[child] = r[child], r[i]
		i = child
	}
}

// best is the host to place on next; nil when all are full.
func (r ranking) best() *room {
	if len(r) == 0 {
		return nil
	}
	top := &r[0]
	for top.free != top.room.free {
		top.free = top.room.free
		r.sink(0)
	}
	if top.free <= 0 {
		return nil
	}
	return top.room
}
