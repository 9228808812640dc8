package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api/stream"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Streams bound the streams of events. Zero is the default.
type Streams struct {
	Frames    int           // kept for those who come back
	Bytes     int           // that these frames may have
	Heartbeat time.Duration // between two signs of life; at every other one it is asked whether the caller may still follow
	Write     time.Duration // how long a client may take for what is sent to it at once
	Status    time.Duration // between two looks at whether the status has changed
	Linger    time.Duration // how long frames are made and kept when nobody follows
	Total     int           // streams at once
	Each      int           // streams of one user or API token at once
}

func (x Streams) orDefault() Streams {
	for _, d := range []struct {
		field *int
		value int
	}{{&x.Frames, 8192}, {&x.Bytes, 16 << 20}, {&x.Total, 4096}, {&x.Each, 64}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&x.Heartbeat, 15 * time.Second}, {&x.Write, 10 * time.Second}, {&x.Status, time.Second}, {&x.Linger, 10 * time.Minute}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return x
}

// hub turns the events of the bus into frames, each rendered once, and knows who follows. While nobody does, and nobody has for a
// while, it costs nothing: it makes no frames, and whoever comes back later is told to read everything again.
type hub struct {
	s      *Server
	limits Streams
	kinds  map[events.Kind]renderer
	guards map[events.Kind]*auth.Guard

	problems, status *shared

	mu     sync.Mutex
	ring   *stream.Ring[frame] // nil while no frames are made
	stop   context.CancelFunc
	total  int
	by     map[string]int // streams by who follows
	left   chan struct{}  // the last one has left
	closed chan struct{}
	feeds  sync.WaitGroup
}

func newHub(s *Server, limits Streams) *hub {
	h := &hub{
		s: s, limits: limits.orDefault(), kinds: map[events.Kind]renderer{}, guards: map[events.Kind]*auth.Guard{}, by: map[string]int{},
		left: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	for _, r := range s.renderers() {
		g := mustFind(r.guard)
		h.kinds[r.kind], h.guards[r.kind] = r, &g
	}
	problems, status := mustFind("list-problems"), mustFind("get-status")
	h.problems = &shared{name: "problems", guard: &problems, class: func(v viewer) string { return dismisser(v.who) + "\x00" + v.class }}
	h.status = &shared{name: "status", guard: &status, class: func(v viewer) string { return v.class }}
	return h
}

// join lets somebody follow, until they call leave. It returns the ring that they read, in which frames are from now on.
func (h *hub) join(who auth.Principal) (ring *stream.Ring[frame], leave func(), p *Problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed() {
		return nil, nil, problem(http.StatusServiceUnavailable, "The controller is stopping.", "Try again in a moment.").after(1)
	}
	if h.total >= h.limits.Total {
		return nil, nil, problem(http.StatusServiceUnavailable, "As many clients follow events as this controller allows.", "Try again later, or end a stream.").after(30)
	}
	if who.Kind != auth.KindLocal && h.by[who.ID] >= h.limits.Each {
		return nil, nil, problem(http.StatusTooManyRequests, "You follow events as often as one caller may.", "End one of your streams.").after(30)
	}
	h.total++
	h.by[who.ID]++
	if h.ring == nil {
		h.start()
	}
	return h.ring, func() { h.leave(who.ID) }, nil
}

func (h *hub) leave(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total--
	if h.by[id]--; h.by[id] == 0 {
		delete(h.by, id)
	}
	if h.total == 0 {
		select {
		case h.left <- struct{}{}:
		default:
		}
	}
}

// start makes frames of what is announced from now on. Call it with the lock held.
func (h *hub) start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.ring = h.newRing()
	f := &feed{hub: h, sub: h.s.fleet.Events().Subscribe(feedBuffer), waiting: map[events.Event]bool{}, targets: map[events.Event]auth.Target{}}
	h.feeds.Go(func() {
		defer f.sub.Close()
		f.run(ctx)
	})
}

func (h *hub) newRing() *stream.Ring[frame] {
	return stream.NewRing[frame](store.NewID("")[:8], h.limits.Frames, h.limits.Bytes)
}

// restart begins a new epoch: everybody is told to read everything again.
func (h *hub) restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ring == nil {
		return
	}
	h.ring.Close()
	h.ring = h.newRing()
}

// rest stops making frames when nobody follows.
func (h *hub) rest() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total > 0 {
		return false
	}
	h.ring.Close()
	h.ring = nil
	h.stop()
	return true
}

// current is the ring in which frames are now; nil when there is none.
func (h *hub) current() *stream.Ring[frame] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ring
}

func (h *hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// close ends every stream.
func (h *hub) close() {
	h.mu.Lock()
	if !h.isClosed() {
		close(h.closed)
	}
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.feeds.Wait()
}
