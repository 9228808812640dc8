// Package relay carries a runner's output from its host to whoever watches it. Nothing can ask a host for it: the host is sent a
// task, and posts the output back. It must never wait for a viewer, and never hold more of anybody's output than it says.
package relay

import (
	"context"
	"errors"
	"io"
	"sync"
)

// What is held at most, in bytes.
const (
	// TailBytes of the latest output are kept for viewers that join a stream late.
	TailBytes = 64 << 10
	// QueueBytes may wait for one viewer; one that falls further behind loses the oldest.
	QueueBytes = 256 << 10
	// MaxViewers of one runner, and MaxStreams at once.
	MaxViewers = 256
	MaxStreams = 512

	chunkBytes  = 32 << 10
	queueChunks = 4096 // at most wait for a viewer, so that output in crumbs costs no more than its bytes
)

// Errors that callers branch on.
var (
	// ErrNobody says that nobody watches the stream, or that it is another host's, or that it is being sent already.
	ErrNobody = errors.New("nobody watches this stream")
	// ErrFull says that as much is watched as can be.
	ErrFull = errors.New("too many are watching")
)

// Reason says why a stream ended.
type Reason string

// The reasons for which a stream ends.
const (
	Ended  Reason = "ended"  // the output is whole: the runner has ended
	Gone   Reason = "gone"   // nothing of the runner's output is left
	Broken Reason = "broken" // the relay broke off: watch again
	Failed Reason = "failed" // the host could not, or did not, send it
)

// End is why and how a stream ended. Message is a sentence.
type End struct {
	Reason  Reason
	Message string
}

// Hub holds the streams that are watched. The zero value is not ready: use New.
type Hub struct {
	// abandon is told of a stream whose last viewer has left, with no lock held.
	abandon func(*Stream)

	mu       sync.Mutex
	byRunner map[string]*Stream
	byID     map[string]*Stream
}

// New makes a hub. abandon is told of every stream that its last viewer leaves before it has ended.
func New(abandon func(*Stream)) *Hub {
	return &Hub{abandon: abandon, byRunner: map[string]*Stream{}, byID: map[string]*Stream{}}
}

// Stream is one runner's output while somebody watches it. Its exported fields never change.
type Stream struct {
	RunnerID, HostID string
	hub              *Hub

	// Under the hub's lock.
	id      string // that the host posts under; empty until it was asked
	sending bool
	over    *End
	done    chan struct{} // closed when over
	viewers map[*Viewer]struct{}
	tail    []byte // up to twice TailBytes, so that it is seldom moved
}

// chunk is a piece of output. It is shared, and never changed.
type chunk []byte

// Join makes a viewer of a runner's output. first says that nobody watched it yet, and so that the caller has to ask the host.
func (h *Hub) Join(runnerID, hostID string) (v *Viewer, first bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.byRunner[runnerID]
	if s == nil {
		if len(h.byRunner) >= MaxStreams {
			return nil, false, ErrFull
		}
		s = &Stream{RunnerID: runnerID, HostID: hostID, hub: h, done: make(chan struct{}), viewers: map[*Viewer]struct{}{}}
		h.byRunner[runnerID] = s
		first = true
	}
	if len(s.viewers) >= MaxViewers {
		return nil, false, ErrFull
	}
	v = &Viewer{stream: s, news: make(chan struct{}, 1)}
	s.viewers[v] = struct{}{}
	if tail := s.tail[max(0, len(s.tail)-TailBytes):]; len(tail) > 0 {
		v.put(append(chunk(nil), tail...))
	}
	return v, first, nil
}

// Unasked returns the runner's stream when there is one that no host was asked for yet.
func (h *Hub) Unasked(runnerID string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byRunner[runnerID]; s != nil && s.id == "" {
		return s
	}
	return nil
}

// Asked notes under which ID the host was asked for the stream. It is false when the stream is over, so that nobody waits for it.
func (h *Hub) Asked(s *Stream, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over != nil {
		return false
	}
	if s.id == "" {
		s.id = id
		h.byID[id] = s
	}
	return true
}

// Fail ends the runner's stream, if there is one that is not being sent.
func (h *Hub) Fail(runnerID string, end End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byRunner[runnerID]; s != nil && !s.sending {
		h.end(s, end)
	}
}

// Close ends every stream.
func (h *Hub) Close(end End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.byRunner {
		h.end(s, end)
	}
}

// Watched is how many streams there are.
func (h *Hub) Watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byRunner)
}

// end is called with the lock held.
func (h *Hub) end(s *Stream, end End) {
	if s.over != nil {
		return
	}
	s.over = &end
	close(s.done)
	delete(h.byRunner, s.RunnerID)
	delete(h.byID, s.id)
	for v := range s.viewers {
		v.ring()
	}
}

// Sending says whether the host has begun to post it.
func (s *Stream) Sending() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.sending
}

// ID is what the host posts the stream under; empty when it was not asked.
func (s *Stream) ID() string {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.id
}

// Find returns the stream that a host was asked to post under that ID; nil when nobody watches it.
func (h *Hub) Find(hostID, id string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byID[id]; s != nil && s.HostID == hostID {
		return s
	}
	return nil
}

// Send relays what a host posts, until r ends, r breaks, ctx ends, or nobody watches any more, which is no error. r may still be read
// from for a moment after it returns: the caller closes it.
func (h *Hub) Send(ctx context.Context, hostID, id string, r io.Reader) error {
	h.mu.Lock()
	s := h.byID[id]
	if s == nil || s.HostID != hostID || s.sending {
		h.mu.Unlock()
		return ErrNobody
	}
	s.sending = true
	h.mu.Unlock()

	// A read may last for ever, and the last viewer may leave meanwhile.
	go h.pump(s, r)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(s, brokeOff)
	return ctx.Err()
}

var brokeOff = End{Broken, "The relay from the runner's host broke off. Watch again."}

func (h *Hub) pump(s *Stream, r io.Reader) {
	buf := make([]byte, chunkBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 && !h.relay(s, append(chunk(nil), buf[:n]...)) {
			return
		}
		if err == nil {
			continue
		}
		end := End{Ended, "The runner's output has ended."}
		if !errors.Is(err, io.EOF) {
			end = brokeOff
		}
		h.mu.Lock()
		h.end(s, end)
		h.mu.Unlock()
		return
	}
}

// relay gives a piece of output to everybody who watches. It is false when the stream is over.
func (h *Hub) relay(s *Stream, c chunk) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over != nil {
		return false
	}
	if s.tail = append(s.tail, c...); len(s.tail) > 2*TailBytes {
		s.tail = s.tail[:copy(s.tail, s.tail[len(s.tail)-TailBytes:])]
	}
	for v := range s.viewers {
		v.put(c)
	}
	return true
}

// leave takes a viewer out, and ends the stream with the last one.
func (h *Hub) leave(v *Viewer) {
	h.mu.Lock()
	s := v.stream
	_, there := s.viewers[v]
	delete(s.viewers, v)
	last := there && len(s.viewers) == 0 && s.over == nil
	if last {
		h.end(s, End{Broken, "Nobody watches any more."})
	}
	h.mu.Unlock()
	if last && h.abandon != nil {
		h.abandon(s)
	}
}
