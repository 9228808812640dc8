package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/api/stream"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
)

const (
	lastEventIDHeader = "Last-Event-ID"
	afterParam        = "after"
	// atOnce is how many frames are taken from the ring at once.
	atOnce = 16
)

// Messages about the stream itself.
const (
	helloEvent = "hello" // where the stream begins: read everything now
	resetEvent = "reset" // something was lost: read everything again
	endEvent   = "end"   // the stream ends, and why
)

// StreamHello begins a stream.
type StreamHello struct {
	Version string `json:"version"` // of the controller
}

// StreamWord says why a stream ends, or why everything must be read again.
type StreamWord struct {
	Reason string `json:"reason"`
}

func addEvents(s *Server) {
	s.raw("watch-events", s.watchEvents)
	text := &huma.Schema{Type: huma.TypeString, MaxLength: new(64)}
	s.describeStream("watch-events", []*huma.Param{
		{Name: lastEventIDHeader, In: "header", Schema: text, Description: "The ID of the last event that was seen: what came after it is sent first"},
		{Name: afterParam, In: "query", Schema: text, Description: "The same, for clients that cannot set a header"},
	}, map[string]any{
		helloEvent: StreamHello{}, resetEvent: StreamWord{}, endEvent: StreamWord{}, "problems": Page[FleetProblem]{}, "status": Status{},
		"job.updated": Job{}, "runner.updated": Runner{}, "pool.updated": Pool{}, "host.updated": Host{}, "installation.updated": Installation{},
	})
}

// watcher is one who follows events. It has a position and no queue, so it can delay nobody.
type watcher struct {
	s    *Server
	r    *http.Request
	w    http.ResponseWriter
	rc   *http.ResponseController
	ring *stream.Ring[frame]
	at   uint64 // number of the frame to come
	v    viewer
	told map[*shared]uint64 // the version that was sent last
	odd  bool               // at every other heartbeat the credential is checked
	bad  int                // checks in a row that could not be made
}

// watchEvents follows every change that the caller may see.
func (s *Server) watchEvents(w http.ResponseWriter, r *http.Request) {
	who := principal(r.Context())
	ring, leave, p := s.hub.join(who)
	if p != nil {
		s.writeProblem(w, r, p)
		return
	}
	defer leave()
	x := &watcher{s: s, r: r, w: w, rc: http.NewResponseController(w), ring: ring, v: viewerOf(who), told: map[*shared]uint64{}}
	// The connection may serve another request when this stream has ended.
	defer func() { _ = x.rc.SetWriteDeadline(time.Time{}) }()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not keep frames back
	w.WriteHeader(http.StatusOK)
	if x.begin() == nil {
		x.follow(r.Context())
	}
}

// begin finds the place where the client goes on.
func (x *watcher) begin() error {
	id := x.r.Header.Get(lastEventIDHeader) // what a browser sends when it comes back, whatever the address says
	if id == "" {
		id = x.r.URL.Query().Get(afterParam)
	}
	var ok bool
	if x.at, ok = x.ring.After(id); ok {
		return x.beat()
	}
	x.at = x.ring.Next()
	if id == "" {
		return x.word(helloEvent, StreamHello{x.s.version})
	}
	return x.word(resetEvent, StreamWord{"The controller cannot say what followed " + clip(id) + ": it was restarted, or too much has happened since. Read everything again."})
}

func clip(id string) string {
	if _, _, err := stream.ParseID(id); err != nil {
		return "that event"
	}
	return id[:min(len(id), 40)]
}

func (x *watcher) follow(ctx context.Context) {
	beat := time.NewTicker(x.s.hub.limits.Heartbeat)
	defer beat.Stop()
	var buf [atOnce]frame
	for {
		got := x.ring.Read(x.at, buf[:])
		if got.Lost {
			x.at = x.ring.Next()
			_ = x.word(resetEvent, StreamWord{"You are too slow: frames were lost. Connect again, and read everything again."})
			return
		}
		err := x.send(ctx, buf[:got.N])
		clear(buf[:got.N]) // a watcher must not keep old frames alive
		switch {
		case err != nil:
			return
		case got.Over && !x.renew():
			return
		case got.Over:
			continue
		}
		more := got.More
		if got.N > 0 {
			more = ready
		}
		select {
		case <-ctx.Done():
			return
		case <-x.s.hub.closed:
			_ = x.word(endEvent, StreamWord{"The controller is stopping. Connect again."})
			return
		case <-beat.C:
			if !x.check(ctx) || x.beat() != nil {
				return
			}
		case <-more:
		}
	}
}

// ready is a channel on which nobody waits.
var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// send writes the frames that the viewer may see.
func (x *watcher) send(ctx context.Context, frames []frame) error {
	wrote := false
	for i := range frames {
		f := &frames[i]
		text := f.text
		switch {
		case f.shared != nil:
			version, body, err := f.shared.body(ctx, x.v)
			if err != nil {
				return err
			}
			if x.told[f.shared] >= version || body == nil {
				text = nil
				break
			}
			x.told[f.shared] = version
			text = messageOf(f.shared.name, x.ring.ID(f.n), body)
		case !x.v.sees(f):
			text = nil
		}
		if text != nil {
			if !wrote {
				x.hurry()
			}
			if _, err := x.w.Write(text); err != nil {
				return err
			}
			wrote = true
		}
		x.at = f.n + 1
	}
	if !wrote {
		return nil
	}
	return x.rc.Flush()
}

// hurry bounds how long the client may take for what comes next.
func (x *watcher) hurry() {
	_ = x.rc.SetWriteDeadline(time.Now().Add(x.s.hub.limits.Write)) // where the connection has none, it cannot block
}

// word says something about the stream itself. Whoever comes back after it goes on at the watcher's position.
func (x *watcher) word(name string, view any) error {
	body, err := bodyOf(view)
	if err != nil {
		return err
	}
	return x.write(string(messageOf(name, x.ring.ID(x.at-1), body)))
}

// beat is a sign of life. It carries the position, so that whoever may see little does not fall behind.
func (x *watcher) beat() error { return x.write(": \nid: " + x.ring.ID(x.at-1) + "\n\n") }

func (x *watcher) write(text string) error {
	x.hurry()
	if _, err := io.WriteString(x.w, text); err != nil {
		return err
	}
	return x.rc.Flush()
}

// renew goes on in the ring that has replaced this one, and tells the client that something was lost.
func (x *watcher) renew() bool {
	ring := x.s.hub.current()
	if ring == nil || ring == x.ring {
		return false
	}
	x.ring, x.at = ring, ring.Next()
	clear(x.told)
	return x.word(resetEvent, StreamWord{"The controller lost count of what happened. Read everything again."}) == nil
}

// check asks, at every other heartbeat, whether the caller may still follow, and what.
func (x *watcher) check(ctx context.Context) bool {
	if x.odd = !x.odd; x.odd {
		return true
	}
	who, err := x.s.stillWho(x.r.WithContext(ctx))
	g := requestOf(x.r.Context()).guard
	switch {
	case errors.Is(err, signin.ErrCredential):
		_ = x.word(endEvent, StreamWord{"Your session or API token is no longer good. Sign in again."})
		return false
	case err != nil:
		x.bad++
		return x.bad < 2 // for a minute, it may be the database's fault
	case !who.CanSomewhere(g.Role, g.Area, false):
		_ = x.word(endEvent, StreamWord{"You may no longer follow events."})
		return false
	}
	x.bad = 0
	x.v = viewerOf(who)
	return true
}
