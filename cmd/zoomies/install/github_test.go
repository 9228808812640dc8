package install

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestConnectGitHub(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "local.sock")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got map[string]string
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.URL.Path != "/api/v1/github/manifest" || got["public_url"] != "https://builder:8443" {
			t.Errorf("%s %v, %v", r.URL, got, err)
		}
		if got["organization"] != "acme" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"detail":"not so"}`))
			return
		}
		_, _ = w.Write([]byte(`{"url":"https://builder:8443/setup/github/x"}`))
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	var out strings.Builder
	if err := connectGitHub(t.Context(), &out, socket, "https://builder:8443", "acme"); err != nil || !strings.Contains(out.String(), "/setup/github/x") {
		t.Errorf("%s, %v", out.String(), err)
	}
	if err := connectGitHub(t.Context(), &out, socket, "https://builder:8443", ""); err == nil || !strings.Contains(err.Error(), "not so") || !strings.Contains(err.Error(), "itself runs") {
		t.Errorf("a refusal: %v", err)
	}
}
