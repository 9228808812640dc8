package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/client"
)

// stream serves numbered events and does to each connection what its turn says.
type stream struct {
	mu    sync.Mutex
	after []string // Last-Event-ID of each connection
	turns []func(w http.ResponseWriter, from int)
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	turn := len(s.after)
	s.after = append(s.after, r.Header.Get("Last-Event-ID"))
	s.mu.Unlock()
	from := 0
	_, _ = fmt.Sscanf(r.Header.Get("Last-Event-ID"), "e-%d", &from)
	s.turns[min(turn, len(s.turns)-1)](w, from)
}

// numbered sends n events after from.
func numbered(n int, end func()) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, from int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := from + 1; i <= from+n; i++ {
			_, _ = fmt.Fprintf(w, "id: e-%d\nevent: pool.updated\ndata: {\"n\":\ndata: %d}\n\n: comment\n\n", i, i)
		}
		_ = http.NewResponseController(w).Flush()
		if end != nil {
			end()
		}
	}
}

func follow(t *testing.T, s *stream, o client.FollowOptions) (ids []string, err error) {
	t.Helper()
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	c, err := client.New(client.Options{Server: ts.URL, Token: "zoo_x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range c.Follow(ctx, client.PathEvents, o) {
		if err != nil {
			return ids, err
		}
		if want := strings.TrimPrefix(e.ID, "e-"); string(e.Data) != "{\"n\":\n"+want+"}" || e.Type != "pool.updated" {
			t.Errorf("event %+v: %s", e, e.Data)
		}
		ids = append(ids, e.ID)
		if len(ids) == 7 {
			break
		}
	}
	return ids, nil
}

// A stream that breaks goes on where it was, and nothing is missed or told twice.
func TestFollowGoesOn(t *testing.T) {
	t.Parallel()
	s := &stream{turns: []func(http.ResponseWriter, int){
		numbered(3, hangUpNow),
		func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusServiceUnavailable) },
		numbered(2, nil), // ends without a word
		numbered(2, nil),
	}}
	var told []error
	ids, err := follow(t, s, client.FollowOptions{Retry: func(err error, _ time.Duration) { told = append(told, err) }})
	if want := []string{"e-1", "e-2", "e-3", "e-4", "e-5", "e-6", "e-7"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("followed %v, want %v: %v", ids, want, err)
	}
	if want := []string{"", "e-3", "e-3", "e-5"}; !slices.Equal(s.after, want) {
		t.Errorf("asked after %q, want %q", s.after, want)
	}
	if len(told) != 3 {
		t.Errorf("told of %d breaks, want 3: %v", len(told), told)
	}
}

func hangUpNow() { panic(http.ErrAbortHandler) }

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	t.Run("with its last event", func(t *testing.T) {
		t.Parallel()
		s := &stream{turns: []func(http.ResponseWriter, int){numbered(3, nil)}}
		ids, err := follow(t, s, client.FollowOptions{After: "e-10", Ends: func(e client.Event) bool { return e.ID == "e-12" }})
		if want := []string{"e-11", "e-12"}; err != nil || !slices.Equal(ids, want) || s.after[0] != "e-10" {
			t.Errorf("followed %v, want %v, after %q: %v", ids, want, s.after, err)
		}
	})
	t.Run("with a refusal", func(t *testing.T) {
		t.Parallel()
		s := &stream{turns: []func(http.ResponseWriter, int){func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusForbidden) }}}
		_, err := follow(t, s, client.FollowOptions{})
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusForbidden || len(s.after) != 1 {
			t.Errorf("%v after %d connections, want a refusal after one", err, len(s.after))
		}
	})
	t.Run("with its caller", func(t *testing.T) {
		t.Parallel()
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			numbered(1, nil)(w, 0)
			<-r.Context().Done()
		}))
		defer ts.Close()
		c, err := client.New(client.Options{Server: ts.URL})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range c.Follow(ctx, client.PathEvents, client.FollowOptions{}) {
			last = err
			cancel()
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("ended with %v", last)
		}
	})
}

// A connection that says nothing any more, not even that it lives, is given up.
func TestFollowNoticesSilence(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end) // before the server, which waits for its handlers
	s := &stream{turns: []func(http.ResponseWriter, int){numbered(4, func() { <-end }), numbered(4, nil)}}
	ids, err := follow(t, s, client.FollowOptions{Quiet: 100 * time.Millisecond})
	if err != nil || len(ids) != 7 || len(s.after) < 2 {
		t.Errorf("followed %v over %d connections: %v", ids, len(s.after), err)
	}
}
