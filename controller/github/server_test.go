package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

var appKey = sync.OnceValue(func() secrets.Value {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return secrets.New(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
})

const canary = "canaryQ7canaryQ7canaryQ7" // the installation token of every scripted GitHub

// scripted is a GitHub that says what a test tells it to.
type scripted struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	routes map[string]http.HandlerFunc // "METHOD /path" below /api/v3
	asked  []string                    // "METHOD /path?query", tokens left out
	tokens int                         // installation tokens given
	life   time.Duration               // of a token
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{t: t, routes: map[string]http.HandlerFunc{}, life: time.Hour}
	s.on("POST /app/installations/7/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.tokens++
		s.mu.Unlock()
		reply(w, 201, map[string]any{"token": canary, "expires_at": time.Now().Add(s.life).UTC().Format(time.RFC3339)})
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/api/v3")
		if !ok {
			t.Errorf("request outside the base URL: %s", r.URL)
		}
		key := r.Method + " " + path
		s.mu.Lock()
		h := s.routes[key]
		if !strings.HasSuffix(path, "/access_tokens") {
			line := key
			if r.URL.RawQuery != "" {
				line += "?" + r.URL.RawQuery
			}
			s.asked = append(s.asked, line)
		}
		s.mu.Unlock()
		if h == nil {
			reply(w, 404, map[string]any{"message": "Not Found"})
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) on(route string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[route] = h
}

// answers makes a handler of a status, headers as "Name: value", and a JSON body.
func answers(status int, body any, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		reply(w, status, body)
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func (s *scripted) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func (s *scripted) tokensGiven() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

func (s *scripted) client(change ...func(*Config)) *Client {
	s.t.Helper()
	cfg := Config{
		BaseURL: s.URL + "/api/v3", AppID: 3, InstallationID: 7, Account: "acme",
		PrivateKey: appKey(), Now: time.Now,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

var org = Scope{Org: "acme"}

const mintRoute = "POST /orgs/acme/actions/runners/generate-jitconfig"

func jit(name string) JITRequest { return JITRequest{Name: name, Labels: []string{"zoomies"}} }

func message(s string) map[string]any { return map[string]any{"message": s} }

func nextLink(s *scripted, r *http.Request, page int) string {
	return fmt.Sprintf(`Link: <%s%s?page=%d&per_page=100>; rel="next"`, s.URL, r.URL.Path, page)
}
