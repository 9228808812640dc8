package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/tmaxmax/go-sse"
)

// PathEvents is where every change is followed.
const PathEvents = "/api/v1/events"

// PathRunnerLogs is where a runner's output is followed.
func PathRunnerLogs(id string) string { return "/api/v1/runners/" + id + "/logs" }

// Event is one server-sent event.
type Event struct {
	ID   string // names its place in the stream; empty where the stream has no places
	Type string
	Data []byte
}

// FollowOptions say how a stream is followed. The zero value follows it from now on for ever.
type FollowOptions struct {
	After string // the ID of the last event that is known
	// Ends says that an event is the stream's last. Without it a stream that the server ends is asked for again.
	Ends func(Event) bool
	// Retry is told why a stream broke and how long is waited.
	Retry func(err error, wait time.Duration)
	// Quiet is how long a stream may say nothing, not even that it lives, before it counts as broken; 0 is 45 seconds.
	Quiet time.Duration
}

// maxEvent bounds one event, in bytes.
const maxEvent = 4 << 20

// Follow yields the events of a stream. When the connection breaks it connects again and asks for what came after the last event, so
// that nothing is missed where the server still has it. It ends with ctx, with an event that ends the stream, or with an error that
// connecting again would not mend.
func (c *Client) Follow(ctx context.Context, path string, o FollowOptions) iter.Seq2[Event, error] {
	if o.Quiet == 0 {
		o.Quiet = 45 * time.Second
	}
	return func(yield func(Event, error) bool) {
		f := follower{c: c, path: path, o: o, last: o.After, yield: yield}
		wait := backoff.NewExponentialBackOff()
		wait.InitialInterval, wait.MaxInterval = 250*time.Millisecond, 15*time.Second
		for {
			before := f.count
			err := f.connect(ctx)
			if f.done {
				return
			}
			if ctx.Err() != nil {
				yield(Event{}, ctx.Err())
				return
			}
			if !mendable(err) {
				yield(Event{}, err)
				return
			}
			if f.count > before {
				wait.Reset()
			}
			d := wait.NextBackOff()
			if l, ok := errors.AsType[later](err); ok {
				d = l.wait.Duration
			}
			if o.Retry != nil {
				o.Retry(err, d)
			}
			t := time.NewTimer(d)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				yield(Event{}, ctx.Err())
				return
			}
		}
	}
}

// follower is one stream under way.
type follower struct {
	c     *Client
	path  string
	o     FollowOptions
	last  string
	count int
	done  bool // the caller or the stream has ended it
	yield func(Event, error) bool
}

// mendable says whether connecting again may help.
func mendable(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var un *UnavailableError
	return errors.As(err, &un) && !hopeless(un.Err)
}

// errEnded is a stream that the server ended without a word.
var errEnded = errors.New("the stream ended")

// connect reads one connection to its end.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.c.base+f.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", f.c.agent)
	if f.c.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.c.token)
	}
	if f.last != "" {
		req.Header.Set("Last-Event-ID", f.last)
	}
	quiet := time.AfterFunc(f.o.Quiet, func() { cancel(errors.New("the stream says nothing any more")) })
	defer quiet.Stop()
	resp, err := f.c.streamed(req)
	if err != nil {
		return err // also when it said nothing for too long
	}
	defer resp.Body.Close()
	read := &watched{r: resp.Body, seen: func() { quiet.Reset(f.o.Quiet) }}
	for ev, err := range sse.Read(read, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			return &UnavailableError{Base: f.c.base, Err: cmp.Or(context.Cause(ctx), err)}
		}
		e := Event{ID: ev.LastEventID, Type: ev.Type, Data: []byte(ev.Data)}
		if e.ID != "" {
			f.last = e.ID
		}
		f.count++
		if !f.yield(e, nil) || f.o.Ends != nil && f.o.Ends(e) {
			f.done = true
			return nil
		}
	}
	return &UnavailableError{Base: f.c.base, Err: errEnded}
}

// streamed sends a request whose answer is read for as long as it lasts.
func (c *Client) streamed(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &UnavailableError{Base: c.base, Err: err}
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	p := problemOf(resp)
	if wait := retryAfter(resp); wait > 0 {
		return nil, later{p, &backoff.RetryAfterError{Duration: min(wait, maxWait)}}
	}
	return nil, p
}

// watched says each time that something was read.
type watched struct {
	r    io.Reader
	seen func()
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.seen()
	}
	return n, err
}
