package github

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

func TestNewClientRefusesBadConfig(t *testing.T) {
	t.Parallel()
	good := Config{AppID: 3, InstallationID: 7, PrivateKey: appKey()}
	for name, change := range map[string]func(*Config){
		"no app":           func(c *Config) { c.AppID = 0 },
		"no installation":  func(c *Config) { c.InstallationID = 0 },
		"not a key":        func(c *Config) { c.PrivateKey = secrets.Of("hunter2 is no key") },
		"no key":           func(c *Config) { c.PrivateKey = secrets.Value{} },
		"no scheme":        func(c *Config) { c.BaseURL = "ghe.example.com/api/v3" },
		"other scheme":     func(c *Config) { c.BaseURL = "ftp://ghe.example.com" },
		"credentials":      func(c *Config) { c.BaseURL = "https://me:hunter2@ghe.example.com/api/v3" },
		"query":            func(c *Config) { c.BaseURL = "https://ghe.example.com/api/v3?token=hunter2" },
		"unparseable":      func(c *Config) { c.BaseURL = "https://ghe hunter2" },
		"nothing but path": func(c *Config) { c.BaseURL = "/api/v3" },
	} {
		cfg := good
		change(&cfg)
		_, err := NewClient(cfg)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v is no ErrUnusable", name, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows what it was given: %v", name, err)
		}
	}
	c, err := NewClient(good)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.gh.BaseURL.String(); got != "https://api.github.com/" {
		t.Errorf("default base URL is %s", got)
	}
}

func TestEveryCallIsSignedAndNamed(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /orgs/acme/actions/runners", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+canary {
			t.Errorf("Authorization is %q", got)
		}
		if !strings.HasPrefix(r.UserAgent(), "zoomies") {
			t.Errorf("User-Agent is %q", r.UserAgent())
		}
		reply(w, 200, map[string]any{"total_count": 0, "runners": []any{}})
	})
	token := s.routes["POST /app/installations/7/access_tokens"]
	s.on("POST /app/installations/7/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); strings.Count(got, ".") != 2 {
			t.Errorf("the token request is not signed with a JWT")
		}
		if !strings.HasPrefix(r.UserAgent(), "zoomies") {
			t.Errorf("User-Agent of the token request is %q", r.UserAgent())
		}
		token(w, r)
	})
	if _, err := s.client().ListRunners(t.Context(), org); err != nil {
		t.Fatal(err)
	}
}

// A21: runners must not mint a token each.
func TestManyCallsShareOneToken(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /orgs/acme/actions/runners", answers(200, map[string]any{"total_count": 0, "runners": []any{}}))
	c := s.client()
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, err := c.ListRunners(t.Context(), org); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.tokensGiven(); n != 1 {
		t.Errorf("%d tokens for 40 concurrent calls", n)
	}
}

func TestWaitingForATokenEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	asked, release := make(chan struct{}, 1), make(chan struct{})
	token := s.routes["POST /app/installations/7/access_tokens"]
	s.on("POST /app/installations/7/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		token(w, r)
	})
	s.on("GET /orgs/acme/actions/runners", answers(200, map[string]any{"total_count": 0, "runners": []any{}}))
	c := s.client()
	first := make(chan error, 1)
	go func() { first <- second(c.ListRunners(t.Context(), org)) }()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	go func() { waiter <- second(c.ListRunners(ctx, org)) }()
	cancel()
	if err := <-waiter; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("one caller's leaving spoiled the token for another: %v", err)
	}
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.life = 30 * time.Second // inside the last minute at once
	s.on("GET /orgs/acme/actions/runners", answers(200, map[string]any{"total_count": 0, "runners": []any{}}))
	c := s.client()
	for range 2 {
		if _, err := c.ListRunners(t.Context(), org); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.tokensGiven(); n != 2 {
		t.Errorf("%d tokens; one about to expire must not be used", n)
	}
}

func TestTokenThatDiedEarlyIsReplacedOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	var clock atomic.Int64
	c := s.client(func(cfg *Config) {
		cfg.Now = func() time.Time { return time.Unix(1_800_000_000+clock.Load(), 0) }
	})
	s.on("GET /orgs/acme/actions/runners", answers(200, map[string]any{"total_count": 0, "runners": []any{}}))
	if _, err := c.ListRunners(t.Context(), org); err != nil { // the first token
		t.Fatal(err)
	}
	bad := true
	s.on(mintRoute, func(w http.ResponseWriter, r *http.Request) {
		if bad {
			reply(w, 401, message("Bad credentials"))
			bad = false
			return
		}
		reply(w, 201, map[string]any{"runner": map[string]any{"id": 1, "name": "r"}, "encoded_jit_config": "e30="})
	})
	clock.Add(600)
	if _, err := c.MintJIT(t.Context(), org, jit("r")); err != nil {
		t.Fatal(err)
	}
	if n := s.tokensGiven(); n != 2 {
		t.Errorf("%d tokens, want the dead one and a new one", n)
	}
	// Credentials that are refused for good are not hammered with.
	s.on(mintRoute, answers(401, message("Bad credentials")))
	before := len(s.calls())
	if _, err := c.MintJIT(t.Context(), org, jit("r")); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
	if n := len(s.calls()) - before; n != 1 {
		t.Errorf("%d calls with refused credentials", n)
	}
}

func TestRedirectNeverCarriesTheTokenToAnotherHost(t *testing.T) {
	t.Parallel()
	var visited atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) }))
	defer elsewhere.Close()
	s := newScripted(t)
	s.on("GET /repos/a/b/actions/jobs/5", answers(301, nil, "Location: "+elsewhere.URL+"/x"))
	if _, err := s.client().Job(t.Context(), "a/b", 5); err == nil {
		t.Error("no error")
	}
	if visited.Load() {
		t.Error("the other host was asked")
	}
	// Within GitHub a renamed repository answers with a redirect, which is followed.
	s.on("GET /repos/a/b/actions/jobs/5", answers(301, nil, "Location: "+s.URL+"/api/v3/repositories/9/actions/jobs/5"))
	s.on("GET /repositories/9/actions/jobs/5", answers(200, map[string]any{"id": 5, "run_id": 1, "status": "queued"}))
	if j, err := s.client().Job(t.Context(), "a/b", 5); err != nil || j.Status != "queued" {
		t.Errorf("got %+v, %v", j, err)
	}
}

func TestEndlessAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /repos/a/b/actions/jobs/5", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"name":"`))
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 40 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, err := s.client().Job(t.Context(), "a/b", 5); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}

func TestPagesAreFollowedWithoutLinksAndEndWithBadOnes(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	full := make([]any, 100)
	s.on("GET /orgs/acme/actions/runners", func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		for i := range full {
			id := i + 1
			if page == "2" {
				id += 100
			}
			full[i] = map[string]any{"id": id, "name": "r"}
		}
		if page == "3" { // a link that points backwards must not loop
			answers(200, map[string]any{"total_count": 201, "runners": []any{map[string]any{"id": 900}}}, nextLink(s, r, 1))(w, r)
			return
		}
		reply(w, 200, map[string]any{"total_count": 201, "runners": full})
	})
	all, err := s.client().ListRunners(t.Context(), org)
	if err != nil || len(all) != 201 {
		t.Errorf("%d runners, %v", len(all), err)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	c := s.client()
	for _, bad := range []Scope{{}, {Org: "a", Repository: "a/b"}, {Org: "a/../b"}, {Org: ".."}, {Repository: "b"}, {Repository: "a/b/c"}, {Repository: "a/.."}, {Repository: "a/b?x=1"}} {
		if _, err := c.ListRunners(t.Context(), bad); err == nil {
			t.Errorf("%+v accepted", bad)
		}
		if _, err := c.MintJIT(t.Context(), bad, jit("r")); err == nil {
			t.Errorf("%+v accepted for minting", bad)
		}
		if err := c.DeleteRunner(t.Context(), bad, 1); err == nil {
			t.Errorf("%+v accepted for deleting", bad)
		}
	}
	if calls := s.calls(); len(calls) > 0 {
		t.Errorf("GitHub was asked: %v", calls)
	}
}
