package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	keyHeader = "Idempotency-Key"
	// maxWait is the longest Retry-After that is waited for; a longer one is the caller's decision.
	maxWait = 30 * time.Second
)

// Do sends a request: with the token, and again when that is safe and may help. An answer of 400 and above comes as *Problem, no
// answer as *UnavailableError.
//
// What names its outcome (GET, HEAD, PUT, DELETE) is repeated when the connection failed and after 502, 503 and 429. A POST is
// repeated likewise under an idempotency key, which is made here; one of a caller whom the controller does not know has no key and
// is not repeated. Anything is repeated after 429 and where no connection was made at all: then nothing was done.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", c.agent)
	if c.token != "" && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	known := c.owner || req.Header.Get("Authorization") != "" || req.Header.Get("Cookie") != ""
	if req.Method == http.MethodPost && known && req.Header.Get(keyHeader) == "" {
		req.Header.Set(keyHeader, rand.Text())
	}
	first := true
	try := func() (*http.Response, error) {
		if !first && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, backoff.Permanent(err)
			}
			req.Body = body
		}
		first = false
		resp, err := c.once(req)
		if err == nil {
			return resp, nil
		}
		if !c.again(req, err) {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 200 * time.Millisecond
	resp, err := backoff.Retry(req.Context(), try, backoff.WithBackOff(b), backoff.WithMaxTries(c.tries), backoff.WithMaxElapsedTime(2*time.Minute))
	if err != nil {
		return nil, cause(req.Context(), err)
	}
	return resp, nil
}

// later is a problem together with how long the controller asks to wait.
type later struct {
	*Problem

	wait *backoff.RetryAfterError
}

// Unwrap lets the library find how long to wait, and callers the problem.
func (l later) Unwrap() []error { return []error{l.Problem, l.wait} }

// once sends a request one time.
func (c *Client) once(req *http.Request) (*http.Response, error) {
	resp, cancel, err := c.send(req)
	if err != nil {
		return nil, &UnavailableError{Base: c.base, Err: err}
	}
	if resp.StatusCode < http.StatusBadRequest {
		resp.Body = body{resp.Body, cancel}
		return resp, nil
	}
	defer cancel()
	defer resp.Body.Close()
	p := problemOf(resp)
	switch wait := retryAfter(resp); {
	case wait <= 0:
		return nil, p
	case wait > maxWait:
		return nil, backoff.Permanent(p)
	default:
		return nil, later{p, &backoff.RetryAfterError{Duration: wait}}
	}
}

// retryAfter is how long the server asks to wait; 0 when it does not say.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*60*60)) * time.Second
}

// send bounds one request in time, its body included.
func (c *Client) send(req *http.Request) (*http.Response, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, func() {}, err
	}
	return resp, cancel, nil
}

// body releases a request's timer when its answer was read.
type body struct {
	io.ReadCloser

	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// again says whether a request may be sent once more after err.
func (c *Client) again(req *http.Request, err error) bool {
	if req.Context().Err() != nil || req.Body != nil && req.GetBody == nil && req.Body != http.NoBody {
		return false
	}
	safe := req.Header.Get(keyHeader) != ""
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		safe = true
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		switch p.Status {
		case http.StatusTooManyRequests:
			return true
		case http.StatusBadGateway, http.StatusServiceUnavailable:
			return safe
		}
		return false
	}
	var un *UnavailableError
	if !errors.As(err, &un) || hopeless(un.Err) {
		return false
	}
	var op *net.OpError
	if errors.As(un.Err, &op) && op.Op == "dial" {
		return true
	}
	return safe
}

// cause is what a caller is told: the problem itself, without what the library needed to know.
func cause(ctx context.Context, err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if un, ok := errors.AsType[*UnavailableError](err); ok {
		return un
	}
	return err
}
