package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/client/rest"
)

// fails makes the first n requests fail in a way, after they were carried out where after is set.
func (r *rig) fails(n int32, how func(http.ResponseWriter)) {
	var count atomic.Int32
	r.interfere(func(w http.ResponseWriter, _ *http.Request) bool {
		if count.Add(1) > n {
			return false
		}
		how(w)
		return true
	})
}

func status(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

// hangUp closes the connection instead of answering.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// What is safe is asked again, and nothing else is.
func TestRetries(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, r *rig) error {
		_, err := r.GetPoolWithResponse(ctx, r.seed.Pool.ID)
		return err
	}
	create := func(ctx context.Context, r *rig) error {
		_, err := r.CreatePoolWithResponse(ctx, nil, rest.PoolSpec{Name: "linux", InstallationID: r.seed.Installation.ID})
		return err
	}
	update := func(ctx context.Context, r *rig) error {
		three := int64(3)
		_, err := r.UpdatePoolWithResponse(ctx, r.seed.Pool.ID, nil, rest.PoolPatch{Max: &three})
		return err
	}
	remove := func(ctx context.Context, r *rig) error {
		_, err := r.DeletePoolWithResponse(ctx, r.seed.Pool.ID, nil)
		return err
	}
	stranger := func(ctx context.Context, r *rig) error {
		c, err := client.New(client.Options{Server: r.url})
		if err != nil {
			return err
		}
		_, err = c.Call(ctx, http.MethodPost, "/api/v1/session", nil, map[string]string{"name": "ada", "password": "x"})
		return err
	}
	for _, tt := range []struct {
		name  string
		fails int32
		how   func(http.ResponseWriter)
		call  func(context.Context, *rig) error
		tries int
		ok    bool
	}{
		{"a read, unavailable", 2, status(503), get, 3, true},
		{"a read, hung up on", 2, hangUp, get, 3, true},
		{"a read, behind a bad gateway", 1, status(502), get, 2, true},
		{"a read, for ever unavailable", 99, status(503), get, 4, false},
		{"a read, shed", 1, status(429, "Retry-After", "1"), get, 2, true},
		{"a read, shed for an hour", 1, status(429, "Retry-After", "3600"), get, 1, false},
		{"a read of what fails", 1, status(500), get, 1, false},
		{"a delete, hung up on", 1, hangUp, remove, 2, true},
		{"a create, hung up on", 1, hangUp, create, 2, true},
		{"a create, unavailable", 1, status(503), create, 2, true},
		{"a change, unavailable", 1, status(503), update, 1, false},
		{"a change, hung up on", 1, hangUp, update, 1, false},
		{"a change, shed", 1, status(429), update, 2, true},
		{"a sign-in, hung up on", 1, hangUp, stranger, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fails(tt.fails, tt.how)
			err := tt.call(t.Context(), r)
			if (err == nil) != tt.ok || len(r.requests()) != tt.tries {
				t.Errorf("%d requests, want %d; %v", len(r.requests()), tt.tries, err)
			}
		})
	}
}

// A create whose answer is lost makes one object: the repeat carries the same key.
func TestLostAnswerMakesOnePool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := true
	done := make(chan struct{})
	r.interfere(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPost || !first {
			return false
		}
		first = false
		defer close(done)
		hangUp(w)
		return true
	})
	made, err := r.CreatePoolWithResponse(t.Context(), nil, rest.PoolSpec{Name: "linux", InstallationID: r.seed.Installation.ID})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	keys := map[string]bool{}
	for _, req := range r.requests() {
		keys[req.Header.Get("Idempotency-Key")] = true
	}
	if len(r.requests()) != 2 || len(keys) != 1 || keys[""] {
		t.Errorf("%d requests under the keys %v, want 2 under one", len(r.requests()), keys)
	}
	if made.JSON201 == nil || made.JSON201.Name != "linux" {
		t.Errorf("made %+v", made.JSON201)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	c, err := client.New(client.Options{Server: "http://127.0.0.1:1", Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	var un *client.UnavailableError
	if _, err := c.Call(t.Context(), http.MethodGet, "/", nil, nil); !errors.As(err, &un) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Call(ctx, http.MethodGet, "/", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away: %v", err)
	}
}

// A server that never answers does not hold a caller for ever.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	r.interfere(func(http.ResponseWriter, *http.Request) bool { <-end; return true })
	c := r.client(t, client.Options{Token: r.token, Timeout: 50 * time.Millisecond, Tries: 1})
	var un *client.UnavailableError
	if _, err := c.Call(t.Context(), http.MethodGet, "/api/v1/pools", nil, nil); !errors.As(err, &un) {
		t.Errorf("a server that does not answer: %v", err)
	}
}
