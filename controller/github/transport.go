package github

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
)

// attempt follows one call through the layers, from the client to the wire and back.
type attempt struct {
	cached      bool
	asked, sent atomic.Bool // a connection was wanted; one was had, so bytes may have left
	unsent      atomic.Bool // the call ended before the wire: there was no token
	answer      atomic.Pointer[answer]
}

func (t *attempt) refused() *answer { return t.answer.Load() }

// maybeSent is false only when the call surely never left: no token, or no connection.
func (t *attempt) maybeSent() bool {
	if t.unsent.Load() {
		return false
	}
	return t.sent.Load() || !t.asked.Load()
}

func (t *attempt) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, attemptKey{}, t), &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.sent.Store(true) },
	})
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	if t, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return t
	}
	return &attempt{}
}

var errRefused = errors.New("refused") // what the layers above see; explain reads the answer instead

// authTransport signs calls with the installation's token, and takes refusals out of the way of the layers above:
// go-github sees successes only, without the headers from which it would keep books of its own.
type authTransport struct {
	wire  http.RoundTripper
	base  *url.URL
	id    int64
	app   *ghinstallation.AppsTransport
	cache *etags
	now   func() time.Time

	gate chan struct{} // holds one: one token refresh at a time, and waiting for it ends with the caller's context

	mu     sync.Mutex
	tokens *ghinstallation.Transport
	since  time.Time // when tokens was begun
}

// staleAfter is the least age at which a token that GitHub rejects is thrown away and asked for anew.
const staleAfter = time.Minute

func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.base.Scheme || req.URL.Host != t.base.Host {
		closeBody(req) // a redirect: within GitHub a renamed repository answers with one, elsewhere it is no business of ours
		return nil, errors.New("refusing to send the installation token to another host")
	}
	st := attemptOf(req.Context())
	tokens := t.current()
	resp, token, err := t.send(req, st, tokens)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && t.discard(tokens) {
		// Tokens die early when an installation is suspended or its permissions change. A 401 had no effect, so asking again is safe.
		if again, ok := replay(req); ok {
			resp.Body.Close()
			resp, token, err = t.send(again, st, t.current())
		}
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		st.answer.Store(readAnswer(resp, token))
		return nil, errRefused
	}
	for _, h := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		resp.Header.Del(h)
	}
	return resp, nil
}

func (t *authTransport) send(req *http.Request, st *attempt, tokens *ghinstallation.Transport) (*http.Response, string, error) {
	token, err := t.token(req.Context(), tokens)
	if err != nil {
		closeBody(req)
		st.unsent.Store(true)
		var refused *ghinstallation.HTTPError
		if errors.As(err, &refused) && refused.Response != nil {
			a := readAnswer(refused.Response, "")
			a.token = true
			st.answer.Store(a)
		}
		return nil, "", err
	}
	signed := req.Clone(req.Context())
	signed.Header.Set("Authorization", "Bearer "+token)
	if st.cached && req.Method == http.MethodGet {
		resp, err := t.cache.roundTrip(t.wire, signed)
		return resp, token, err
	}
	resp, err := t.wire.RoundTrip(signed)
	return resp, token, err
}

// token returns a token with at least a minute to live.
func (t *authTransport) token(ctx context.Context, tokens *ghinstallation.Transport) (string, error) {
	select {
	case t.gate <- struct{}{}:
		defer func() { <-t.gate }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	// The refresh ends with the caller, but is not the call: its connection must not count as the call's.
	refresh, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return tokens.Token(refresh)
}

func (t *authTransport) current() *ghinstallation.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tokens == nil {
		t.begin()
	}
	return t.tokens
}

// discard throws away rejected tokens, once for all who met the rejection. It says whether asking again may help.
func (t *authTransport) discard(rejected *ghinstallation.Transport) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tokens != rejected {
		return true
	}
	if t.now().Sub(t.since) < staleAfter {
		return false
	}
	t.begin()
	return true
}

func (t *authTransport) begin() {
	t.tokens = ghinstallation.NewFromAppsTransport(t.app, t.id)
	t.tokens.BaseURL = strings.TrimRight(t.base.String(), "/")
	t.since = t.now()
}

func replay(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := req.Clone(req.Context())
	again.Body = body
	return again, true
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// wire is the lowest layer of ours: it names us, and bounds what an answer may cost in memory.
type wire struct {
	next  http.RoundTripper
	agent string
	limit int64
}

func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", w.agent)
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, w.limit)
	return resp, nil
}
