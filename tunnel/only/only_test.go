package only_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/tunnel/only"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	h := only.Paths(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		"/api/v1/agent/", "/api/v1/provider-setups/complete")
	for _, c := range []struct {
		target string
		want   int
	}{
		{"/api/v1/agent/join", http.StatusTeapot},
		{"/api/v1/agent/logs/s1", http.StatusTeapot},
		{"/api/v1/agent/join?x=/../..", http.StatusTeapot},
		{"/api/v1/provider-setups/complete", http.StatusTeapot},
		{"/api/v1/agent", http.StatusNotFound},
		{"/api/v1/agent/", http.StatusNotFound},
		{"/api/v1/agents/x", http.StatusNotFound},
		{"/api/v1/provider-setups/complete/more", http.StatusNotFound},
		{"/api/v1/provider-setups/completed", http.StatusNotFound},
		{"/api/v1/provider-setups", http.StatusNotFound},
		{"/", http.StatusNotFound},
		{"/api/v1/agent/../pools", http.StatusNotFound},
		{"/api/v1/agent/%2e%2e/pools", http.StatusNotFound},
		{"/api/v1/agent/..%2fpools", http.StatusNotFound},
		{"/api/v1/agent/..\\pools", http.StatusNotFound},
		{"/api/v1/agent//pools", http.StatusNotFound},
		{"//api/v1/agent/join", http.StatusNotFound},
		{"/API/v1/agent/join", http.StatusNotFound},
		{"http://elsewhere/api/v1/pools", http.StatusNotFound},
		{"*", http.StatusNotFound},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + c.target + " HTTP/1.1\r\nHost: controller\r\n\r\n")))
		if err != nil {
			continue // net/http refuses it before any handler
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.target, w.Code, c.want)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	only.Paths(http.NotFoundHandler(), "/a").ServeHTTP(w, httptest.NewRequest(http.MethodConnect, "/a", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("CONNECT: %d", w.Code)
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("/api/v1/agent/join")
	f.Add("/api/v1/agent/../pools")
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return
		}
		// What gets through must be reached by net/http's own mux under the same path.
		mux := http.NewServeMux()
		mux.HandleFunc("/api/v1/agent/", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { t.Errorf("%q got through to something else", target) })
		only.Paths(mux, "/api/v1/agent/").ServeHTTP(httptest.NewRecorder(), r)
	})
}
