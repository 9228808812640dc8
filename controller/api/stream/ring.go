// Package stream keeps the newest of numbered messages for any number of readers, each of which goes at its own pace. It must never
// let a reader delay the writer or another reader, and knows nothing of what the messages say.
package stream

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Ring holds the newest messages, within a number of them and of bytes. Readers have positions and no queues: one that falls behind
// the oldest message that is kept has lost some, and is told so. It is safe for concurrent use.
type Ring[T any] struct {
	epoch              string
	maxCount, maxBytes int

	mu     sync.RWMutex
	slots  []slot[T] // slots[n%len] is message n
	oldest uint64    // number of the oldest that is kept; next when none is
	next   uint64    // number of the one to come; numbers begin at 1
	bytes  int
	more   chan struct{} // closed when something happens
	over   bool
}

type slot[T any] struct {
	message T
	bytes   int
}

// NewRing makes an empty ring. The epoch tells its numbers from those of any other ring.
func NewRing[T any](epoch string, maxCount, maxBytes int) *Ring[T] {
	return &Ring[T]{epoch: epoch, maxCount: maxCount, maxBytes: maxBytes, oldest: 1, next: 1, more: make(chan struct{})}
}

// Append adds the message that build makes of its number, with its size in bytes. The newest message is kept however large it is.
func (r *Ring[T]) Append(build func(n uint64) (T, int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, size := build(r.next)
	for r.oldest < r.next && (r.bytes+size > r.maxBytes || r.next-r.oldest >= uint64(r.maxCount)) {
		r.drop()
	}
	r.grow()
	r.slots[r.next%uint64(len(r.slots))] = slot[T]{m, size}
	r.next++
	r.bytes += size
	r.tell()
}

func (r *Ring[T]) drop() {
	at := &r.slots[r.oldest%uint64(len(r.slots))]
	r.bytes -= at.bytes
	*at = slot[T]{}
	r.oldest++
}

// grow sees to it that there is a free slot. A fleet where little happens needs few.
func (r *Ring[T]) grow() {
	if r.next-r.oldest < uint64(len(r.slots)) {
		return
	}
	larger := make([]slot[T], min(r.maxCount, max(64, 2*len(r.slots))))
	for n := r.oldest; n < r.next; n++ {
		larger[n%uint64(len(larger))] = r.slots[n%uint64(len(r.slots))]
	}
	r.slots = larger
}

func (r *Ring[T]) tell() {
	close(r.more)
	r.more = make(chan struct{})
}

// Close says that no message will follow.
func (r *Ring[T]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		r.tell()
	}
}

// Read is what a reader found.
type Read struct {
	N    int             // messages that were copied
	More <-chan struct{} // closed when there is more to find
	Lost bool            // messages before the position that was asked for are gone
	Over bool            // the ring is closed, and everything in it was read
}

// Read copies messages from number n on into buf.
func (r *Ring[T]) Read(n uint64, buf []T) Read {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := Read{More: r.more}
	if n < r.oldest {
		out.Lost = true
		return out
	}
	for out.N < len(buf) && n < r.next {
		buf[out.N] = r.slots[n%uint64(len(r.slots))].message
		out.N++
		n++
	}
	out.Over = r.over && n >= r.next
	return out
}

// Next is the number of the message to come.
func (r *Ring[T]) Next() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.next
}

// ID names message n of the ring to the outside.
func (r *Ring[T]) ID(n uint64) string { return ID(r.epoch, n) }

// ID names message n of an epoch.
func ID(epoch string, n uint64) string { return epoch + "-" + strconv.FormatUint(n, 10) }

// After is the position behind the message of that ID: where its reader goes on. ok is false when the ring cannot say what followed
// it, because the ID is another ring's or too old.
func (r *Ring[T]) After(id string) (n uint64, ok bool) {
	epoch, n, err := ParseID(id)
	if err != nil {
		return 0, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return n + 1, epoch == r.epoch && n+1 >= r.oldest && n < r.next
}

// ParseID takes an ID apart.
func ParseID(id string) (epoch string, n uint64, err error) {
	epoch, number, found := strings.Cut(id, "-")
	if n, err = strconv.ParseUint(number, 10, 62); !found || err != nil || epoch == "" {
		return "", 0, fmt.Errorf("cannot read %.48q as the ID of an event: it is <epoch>-<number>", id)
	}
	return epoch, n, nil
}
