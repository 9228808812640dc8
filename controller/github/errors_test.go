package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

var errAsk = errors.New("") // stands for "a plain failure" in tables

// A21: every way in which GitHub says no, for a read, a delete and a mint.
func TestRefusalsAreClassified(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	reset := func(d time.Duration) string { return fmt.Sprintf("X-RateLimit-Reset: %d", now.Add(d).Unix()) }
	secondaryDocs := map[string]any{"message": "nope", "documentation_url": "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"}
	const none = "X-RateLimit-Remaining: 0"
	for _, tc := range []struct {
		name    string
		status  int
		body    any
		headers []string
		wait    time.Duration // of a LimitError
		read    error
		delete  error
		mint    error
	}{
		{name: "primary 403", status: 403, body: message("API rate limit exceeded"), headers: []string{none, reset(50 * time.Minute)}, wait: 50 * time.Minute},
		{name: "primary 429", status: 429, body: message("API rate limit exceeded"), headers: []string{none, reset(2 * time.Minute)}, wait: 2 * time.Minute},
		{name: "primary, clock out of step", status: 403, headers: []string{none, reset(9 * time.Hour)}, wait: time.Hour},
		{name: "primary, reset just passed", status: 403, headers: []string{none, reset(-2 * time.Second)}, wait: time.Minute},
		{name: "primary, no reset", status: 403, headers: []string{none}, wait: 15 * time.Minute},
		{name: "primary, reset is rubbish", status: 403, headers: []string{none, "X-RateLimit-Reset: soon"}, wait: 15 * time.Minute},
		{name: "primary by message alone", status: 403, body: message("API rate limit exceeded for installation ID 7."), wait: 15 * time.Minute},
		{name: "secondary 403 with retry-after", status: 403, headers: []string{"Retry-After: 30"}, wait: 30 * time.Second},
		{name: "secondary 429 with retry-after", status: 429, headers: []string{"Retry-After: 90"}, wait: 90 * time.Second},
		{name: "retry-after as a date", status: 429, headers: []string{"Retry-After: " + now.Add(3*time.Minute).UTC().Format(http.TimeFormat)}, wait: 3 * time.Minute},
		{name: "retry-after of a week", status: 429, headers: []string{"Retry-After: 604800"}, wait: time.Hour},
		{name: "retry-after beyond numbers", status: 429, headers: []string{"Retry-After: 9223372036854775807"}, wait: time.Hour},
		{name: "retry-after is rubbish", status: 429, headers: []string{"Retry-After: later"}, wait: time.Minute},
		{name: "retry-after of nothing", status: 429, headers: []string{"Retry-After: 0"}, wait: time.Minute},
		{name: "both: the later counts", status: 403, headers: []string{"Retry-After: 30", none, reset(20 * time.Minute)}, wait: 20 * time.Minute},
		{name: "secondary by message, quota left", status: 403, body: message("You have exceeded a secondary rate limit. Please wait"), headers: []string{"X-RateLimit-Remaining: 4000", reset(50 * time.Minute)}, wait: time.Minute},
		{name: "secondary by documentation", status: 403, body: secondaryDocs, wait: time.Minute},
		{name: "secondary by its old name", status: 403, body: message("You have triggered an abuse detection mechanism."), wait: time.Minute},
		{name: "429 and nothing else", status: 429, wait: time.Minute},
		{name: "403", status: 403, body: message("Resource not accessible by integration"), read: ErrUnauthorized, delete: ErrUnauthorized, mint: ErrUnauthorized},
		{name: "401", status: 401, body: message("Bad credentials"), read: ErrUnauthorized, delete: ErrUnauthorized, mint: ErrUnauthorized},
		{name: "404", status: 404, body: message("Not Found"), read: ErrNotFound, delete: nil, mint: ErrNotFound},
		{name: "409", status: 409, body: message("Already exists - A runner with the name r already exists."), read: errAsk, delete: errAsk, mint: ErrNameTaken},
		{name: "422", status: 422, body: message("Runner is currently running a job and cannot be deleted."), read: errAsk, delete: ErrRunnerBusy, mint: errAsk},
		{name: "500", status: 500, read: errAsk, delete: errAsk, mint: ErrUnknown},
		{name: "502 with a page", status: 502, body: "<html>", read: errAsk, delete: errAsk, mint: ErrUnknown},
		{name: "503", status: 503, headers: []string{"Retry-After: 5"}, read: errAsk, delete: errAsk, mint: ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t)
			for _, route := range []string{"GET /repos/a/b/actions/jobs/5", "DELETE /orgs/acme/actions/runners/5", mintRoute} {
				s.on(route, answers(tc.status, tc.body, tc.headers...))
			}
			clock := func(c *Config) { c.Now = func() time.Time { return now } }
			check := func(call string, err, want error) {
				t.Helper()
				var limit *LimitError
				isLimit := errors.As(err, &limit)
				if tc.wait > 0 {
					if !isLimit || !limit.Until.Equal(now.Add(tc.wait)) {
						t.Errorf("%s: got %v, want a limit of %s", call, err, tc.wait)
					}
					return
				}
				if isLimit {
					t.Errorf("%s: taken for a limit: %v", call, err)
				}
				for _, class := range []error{ErrNameTaken, ErrRunnerBusy, ErrNotFound, ErrUnauthorized, ErrUnknown} {
					if got := errors.Is(err, class); got != (class == want) {
						t.Errorf("%s: errors.Is(%v, %v) is %v", call, err, class, got)
					}
				}
				if (err == nil) != (want == nil) {
					t.Errorf("%s: got %v", call, err)
				}
			}
			_, err := s.client(clock).Job(t.Context(), "a/b", 5)
			check("read", err, tc.read)
			check("delete", s.client(clock).DeleteRunner(t.Context(), org, 5), tc.delete)
			_, err = s.client(clock).MintJIT(t.Context(), org, jit("r"))
			check("mint", err, tc.mint)
		})
	}
}

// A21: one refusal is enough; further calls would be refused too, and lengthen the limit. It ends when GitHub said.
func TestRefusedQuotaIsNotAskedAgainUntilItReturns(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	now := time.Unix(1_800_000_000, 0)
	c := s.client(func(cfg *Config) { cfg.Now = func() time.Time { return now } })
	used := answers(403, message("API rate limit exceeded"), "X-RateLimit-Remaining: 0", fmt.Sprintf("X-RateLimit-Reset: %d", now.Add(10*time.Minute).Unix()))
	s.on(mintRoute, used)
	s.on("GET /repos/a/b/actions/jobs/5", answers(200, map[string]any{"id": 5, "run_id": 1, "status": "queued"}))
	for range 3 {
		var limit *LimitError
		if _, err := c.MintJIT(t.Context(), org, jit("r")); !errors.As(err, &limit) {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(s.calls()); n != 1 {
		t.Errorf("%d calls while refused", n)
	}
	// The other quota is not touched by it.
	if _, err := c.Job(t.Context(), "a/b", 5); err != nil {
		t.Errorf("a read is refused since minting is: %v", err)
	}
	// A secondary limit stops everything.
	s.on("GET /repos/a/b/actions/jobs/5", answers(429, nil, "Retry-After: 60"))
	_, _ = c.Job(t.Context(), "a/b", 5)
	before := len(s.calls())
	if _, err := c.ListRunners(t.Context(), org); err == nil || len(s.calls()) != before {
		t.Errorf("asked during a secondary limit: %v", err)
	}
	now = now.Add(11 * time.Minute)
	s.on(mintRoute, answers(201, map[string]any{"runner": map[string]any{"id": 1}, "encoded_jit_config": "e30="}))
	if _, err := c.MintJIT(t.Context(), org, jit("r")); err != nil {
		t.Errorf("the quota is back but: %v", err)
	}
}

// go-github keeps books of its own: an answer with nothing left must not make it refuse what GitHub would grant.
func TestLastCallOfAQuotaIsNoRefusal(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on(mintRoute, answers(201, map[string]any{"runner": map[string]any{"id": 1}, "encoded_jit_config": "e30="},
		"X-RateLimit-Limit: 10000", "X-RateLimit-Remaining: 0", fmt.Sprintf("X-RateLimit-Reset: %d", time.Now().Add(time.Hour).Unix())))
	s.on("DELETE /orgs/acme/actions/runners/1", answers(204, nil))
	c := s.client()
	if _, err := c.MintJIT(t.Context(), org, jit("r")); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteRunner(t.Context(), org, 1); err != nil {
		t.Errorf("the core quota was refused for the minting quota's sake: %v", err)
	}
}

// A21: the quota is an installation's own.
func TestOneInstallationsLimitLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	refused, served := newScripted(t), newScripted(t)
	const window = 5
	g := NewGovernor(window, nil)
	share := func(c *Config) { c.Mint = g }
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than the window's minute
	defer cancel()
	refused.on(mintRoute, answers(429, nil, "Retry-After: 3600"))
	served.on(mintRoute, answers(201, map[string]any{"runner": map[string]any{"id": 1}, "encoded_jit_config": "e30="}))
	a, b := refused.client(share), served.client(share)
	for range 2 * window {
		var limit *LimitError
		if _, err := a.MintJIT(ctx, org, jit("r")); !errors.As(err, &limit) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := b.MintJIT(ctx, org, jit("r")); err != nil {
		t.Errorf("the refused installation used up the shared window: %v", err)
	}
}

// A token endpoint that does not know the installation says nothing of the runner: a delete must not count as done.
func TestRefusedTokenIsNotTheCallsAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		want   error
	}{{404, ErrUnauthorized}, {410, ErrUnauthorized}, {401, ErrUnauthorized}, {403, ErrUnauthorized}, {409, errAsk}, {422, errAsk}, {500, errAsk}, {503, errAsk}} {
		s := newScripted(t)
		s.on("POST /app/installations/7/access_tokens", answers(tc.status, message("Integration not found")))
		c := s.client()
		for call, err := range map[string]error{
			"delete": c.DeleteRunner(t.Context(), org, 5),
			"mint":   second(c.MintJIT(t.Context(), org, jit("r"))),
			"find":   second(c.FindRunner(t.Context(), org, "r")),
		} {
			if err == nil {
				t.Errorf("%d: %s counts as done", tc.status, call)
			}
			for _, class := range []error{ErrNameTaken, ErrRunnerBusy, ErrNotFound, ErrUnauthorized, ErrUnknown} {
				if got := errors.Is(err, class); got != (class == tc.want) {
					t.Errorf("%d: %s: errors.Is(%v, %v) is %v", tc.status, call, err, class, got)
				}
			}
		}
		if n := len(s.calls()); n != 0 {
			t.Errorf("%d: %d calls without a token", tc.status, n)
		}
	}
	lost := newScripted(t)
	lost.on("POST /app/installations/7/access_tokens", hangUp)
	if _, err := lost.client().MintJIT(t.Context(), org, jit("r")); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("a mint without a token never left: %v", err)
	}
	s := newScripted(t)
	s.on("POST /app/installations/7/access_tokens", answers(429, nil, "Retry-After: 40"))
	var limit *LimitError
	if err := s.client().DeleteRunner(t.Context(), org, 5); !errors.As(err, &limit) {
		t.Errorf("got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestNoErrorCarriesASecret(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	var jwt string
	token := s.routes["POST /app/installations/7/access_tokens"]
	s.on("POST /app/installations/7/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		jwt = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		token(w, r)
	})
	// A GitHub, or something before it, that echoes what it was sent.
	echo := func(w http.ResponseWriter, r *http.Request) {
		reply(w, 400, map[string]any{"message": "bad " + r.Header.Get("Authorization") + " and " + canary + " and ghs_abcdefghijklmnop0123 and " + jwt, "errors": []string{canary}})
	}
	s.on("GET /repos/a/b/actions/jobs/5", echo)
	s.on(mintRoute, func(w http.ResponseWriter, r *http.Request) {
		reply(w, 201, map[string]any{"runner": map[string]any{"id": "ghs_abcdefghijklmnop0123"}, "encoded_jit_config": "c2VjcmV0Y29uZmln"})
	})
	c := s.client()
	_, readErr := c.Job(t.Context(), "a/b", 5)
	minted, mintErr := c.MintJIT(t.Context(), org, jit("r"))
	s2 := newScripted(t)
	s2.on("POST /app/installations/7/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		jwt = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		reply(w, 401, message("cannot decode "+jwt))
	})
	_, tokenErr := s2.client().Job(t.Context(), "a/b", 5)
	for _, err := range []error{readErr, mintErr, tokenErr} {
		if err == nil {
			t.Fatal("no error to look into")
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
				for _, secret := range []string{canary, "ghs_abcdef", "c2VjcmV0Y29uZmln", jwt, strings.Split(jwt, ".")[2]} {
					if strings.Contains(text, secret) {
						t.Errorf("%q shows %q", text, secret)
					}
				}
			}
		}
	}
	if !errors.Is(mintErr, ErrUnknown) || minted.RunnerID != 0 {
		t.Errorf("an unreadable answer to a mint is %v, %+v", mintErr, minted)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain words":                        "plain words",
		"a\x00b\x1b[31mc\nd":                 "a b [31mc d",
		"ghs_0123456789abcdef!":              "[secret]!",
		"github_pat_11ABC_def":               "[secret]",
		"x Bearer abcdefghijklmnopqrstuvwx.": "x [secret]",
		"eyJhbGciOiJSUzI1NiJ9.eyJpYXQi.c2ln": "[secret]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----": "[secret]",
	} {
		if got := scrub(in, ""); got != want {
			t.Errorf("scrub(%q) = %q, want %q", in, got, want)
		}
	}
	if got := scrub(strings.Repeat("ä", 1000), ""); len(got) > maxMessage+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}
