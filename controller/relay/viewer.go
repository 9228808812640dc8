package relay

import "context"

// Viewer is one who watches. What it has not taken yet waits in a queue of at most QueueBytes.
type Viewer struct {
	stream *Stream
	news   chan struct{} // holds one: there is something to take

	// Under the hub's lock.
	queue []chunk
	held  int   // bytes in queue
	lost  int64 // bytes, before the first of queue
}

// Kind says what an event is.
type Kind string

// The kinds of event.
const (
	Log    Kind = "log"  // a piece of output, which may begin and end anywhere
	Lost   Kind = "lost" // output that was dropped here, since the viewer was too slow
	TheEnd Kind = "end"  // the last event
)

// Event is what a viewer gets.
type Event struct {
	Kind Kind
	Data []byte // of a log; shared, not to be changed
	Lost int64  // bytes
	End  End
}

// put is called with the hub's lock held.
func (v *Viewer) put(c chunk) {
	v.queue, v.held = append(v.queue, c), v.held+len(c)
	for v.held > QueueBytes || len(v.queue) > queueChunks {
		n := len(v.queue[0])
		v.queue, v.held, v.lost = v.queue[1:], v.held-n, v.lost+int64(n)
	}
	v.ring()
}

func (v *Viewer) ring() {
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// take returns the next event; ok is false when there is none yet.
func (v *Viewer) take() (e Event, ok bool) {
	v.stream.hub.mu.Lock()
	defer v.stream.hub.mu.Unlock()
	switch {
	case v.lost > 0:
		e = Event{Kind: Lost, Lost: v.lost}
		v.lost = 0
	case len(v.queue) > 0:
		e = Event{Kind: Log, Data: v.queue[0]}
		v.held -= len(v.queue[0])
		v.queue = v.queue[1:]
	case v.stream.over != nil:
		e = Event{Kind: TheEnd, End: *v.stream.over}
	default:
		return e, false
	}
	return e, true
}

// Next waits for the next event. After the end it returns the end again. Its only error is ctx's.
func (v *Viewer) Next(ctx context.Context) (Event, error) {
	for {
		if e, ok := v.take(); ok {
			return e, nil
		}
		select {
		case <-v.news:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Close leaves the stream. It may be called again.
func (v *Viewer) Close() { v.stream.hub.leave(v) }

// Over is a viewer of a stream that has ended before it began.
func Over(end End) *Viewer {
	h := New(nil)
	s := &Stream{hub: h, over: &end, done: make(chan struct{}), viewers: map[*Viewer]struct{}{}}
	v := &Viewer{stream: s, news: make(chan struct{}, 1)}
	s.viewers[v] = struct{}{}
	return v
}
