package github

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ base, web string }{
		"":                                 {"", "https://github.com"},
		"https://github.com":               {"", "https://github.com"},
		"https://api.github.com/":          {"", "https://github.com"},
		"https://GHES.example/api/v3/":     {"https://ghes.example/api/v3", "https://ghes.example"},
		"https://ghes.example:8443/api/v3": {"https://ghes.example:8443/api/v3", "https://ghes.example:8443"},
		"https://api.octo.ghe.com":         {"https://api.octo.ghe.com", "https://octo.ghe.com"},
		"http://127.0.0.1:8080/api/v3":     {"http://127.0.0.1:8080/api/v3", "http://127.0.0.1:8080"},
		"http://localhost:1/api/v3":        {"http://localhost:1/api/v3", "http://localhost:1"},
	} {
		base, err := CheckBaseURL(text)
		if err != nil || base != want.base || WebURL(base) != want.web {
			t.Errorf("%q: %q, %q, %v", text, base, WebURL(base), err)
		}
	}
	for text, says := range map[string]string{
		"http://ghes.example/api/v3":      "https",
		"https://ghes.example":            "/api/v3",
		"https://octo.ghe.com/api/v3":     "api.SUBDOMAIN",
		"https://u:p@ghes.example/api/v3": "credentials",
		"https://ghes.example/api/v3?x=1": "query",
		"ftp://ghes.example/api/v3":       "http(s)",
		"ghes.example":                    "http(s)",
		"http://127.0.0.1.example/api/v3": "https",
	} {
		if _, err := CheckBaseURL(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func (s *scripted) app(apps *Apps) *App {
	s.t.Helper()
	a, err := apps.App(s.URL+"/api/v3", 3, appKey())
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func TestAnAppAsksByItsKey(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	ctx := t.Context()
	a := s.app(NewApps(nil, nil))
	s.on("GET /app", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer eyJ") {
			t.Errorf("the App proves itself with %q", r.Header.Get("Authorization"))
		}
		reply(w, 200, map[string]any{"id": 3, "slug": "z", "name": "Z", "owner": map[string]any{"login": "acme"}, "permissions": map[string]string{"actions": "write"}, "events": []string{"workflow_job"}})
	})
	d, err := a.Details(ctx)
	if err != nil || d.Slug != "z" || d.Permissions["actions"] != "write" || d.Owner.Name() != "acme" {
		t.Errorf("%+v, %v", d, err)
	}
	s.on("GET /app/installations", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "1" {
			w.Header().Set("Link", `<`+s.URL+`/api/v3/app/installations?page=2>; rel="next"`)
			reply(w, 200, []any{map[string]any{"id": 1, "account": map[string]any{"login": "a"}}})
			return
		}
		reply(w, 200, []any{map[string]any{"id": 2, "account": map[string]any{"slug": "corp"}}})
	})
	all, err := a.Installations(ctx)
	if err != nil || len(all) != 2 || all[1].Account.Name() != "corp" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := a.Installation(ctx, 9); !errors.Is(err, ErrNotFound) {
		t.Errorf("a missing installation: %v", err)
	}
	s.on("GET /app/installations/9", answers(200, map[string]any{}))
	if _, err := a.Installation(ctx, 9); err == nil {
		t.Error("an empty answer is an installation")
	}
	s.on("GET /app/hook/config", answers(200, map[string]any{"url": "https://z", "insecure_ssl": 1}))
	if h, err := a.Hook(ctx); err != nil || h.URL != "https://z" || !h.Unverified() {
		t.Errorf("%+v, %v", h, err)
	}
	s.on("GET /app", answers(401, message("A JSON web token could not be decoded")))
	if _, err := a.Details(ctx); !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), "could not be decoded") {
		t.Errorf("a refused key: %v", err)
	}
}

func TestAnAppIsProvenToItsOwnGitHubAlone(t *testing.T) {
	t.Parallel()
	s, other := newScripted(t), newScripted(t)
	other.on("GET /app", answers(200, map[string]any{"id": 3}))
	s.on("GET /app", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/api/v3/app", http.StatusFound)
	})
	if _, err := s.app(NewApps(nil, nil)).Details(t.Context()); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("a redirect elsewhere: %v", err)
	}
	if asked := other.calls(); len(asked) != 0 {
		t.Errorf("the other host was asked %v", asked)
	}
}

func TestALimitOfAnAppIsRemembered(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	now := time.Now()
	apps := NewApps(nil, func() time.Time { return now })
	s.on("GET /app", answers(429, message("slow down"), "Retry-After: 60"))
	var limit *LimitError
	for range 3 { // each by a client of its own
		if _, err := s.app(apps).Details(t.Context()); !errors.As(err, &limit) {
			t.Fatalf("got %v", err)
		}
	}
	if n := len(s.calls()); n != 1 {
		t.Errorf("GitHub was asked %d times", n)
	}
	now = now.Add(2 * time.Minute)
	s.on("GET /app", answers(200, map[string]any{"id": 3}))
	if _, err := s.app(apps).Details(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAManifestsCodeIsConvertedOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	apps := NewApps(nil, nil)
	const route = "POST /app-manifests/c0de/conversions"
	s.on(route, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the conversion needs no proof but the code")
		}
		reply(w, 201, map[string]any{"id": 5, "name": "Z", "pem": string(appKey().Reveal()), "webhook_secret": nil})
	})
	got, err := apps.Convert(t.Context(), s.URL+"/api/v3", "c0de")
	if err != nil || got.ID != 5 || !got.PrivateKey.Equal(appKey()) || !got.WebhookSecret.Empty() {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := apps.Convert(t.Context(), s.URL+"/api/v3", "../../app"); !errors.Is(err, ErrNotFound) || len(s.calls()) != 1 {
		t.Errorf("a path as a code: %v, %v", err, s.calls())
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want error
	}{
		"spent":         {answers(404, message("Not Found")), ErrNotFound},
		"lost":          {answers(502, message("Server Error")), ErrUnknown},
		"without a key": {answers(201, map[string]any{"id": 5, "pem": "x"}), ErrUnknown},
		"dropped":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ErrUnknown},
	} {
		s.on(route, c.h)
		if _, err := apps.Convert(t.Context(), s.URL+"/api/v3", "c0de"); !errors.Is(err, c.want) || strings.Contains(err.Error(), "minting") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABadKeyIsNotShown(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "canary", "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----\n"} {
		_, err := NewApps(nil, nil).App("", 1, secrets.Of(key))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", key, err)
		}
	}
}
