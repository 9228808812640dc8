package scheduler

import "container/heap"

// ranking is a heap of the hosts that fit a shape, the best one first. Hosts only fill up while
// runners are placed, so a spot whose number is too high is put right when it comes to the top.
type ranking []spot

type spot struct {
	*room
	free int // as it was when the spot was last put in its place
}

// better is the order in which hosts are filled: most free slots first, ties by name.
func better(a, b spot) bool {
	if a.free != b.free {
		return a.free > b.free
	}
	return a.order < b.order
}

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return better(r[i], r[j]) }
func (r ranking) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push and Pop complete heap.Interface. A ranking keeps its size, so neither is called.
func (r ranking) Push(any) {}

// Pop is not called either.
func (r ranking) Pop() any { return nil }

func (r ranking) build() { heap.Init(r) }

// best is the host to place on next; nil when all are full.
func (r ranking) best() *room {
	for len(r) > 0 {
		top := &r[0]
		if top.free == top.room.free {
			if top.free <= 0 {
				return nil
			}
			return top.room
		}
		top.free = top.room.free
		heap.Fix(r, 0)
	}
	return nil
}
