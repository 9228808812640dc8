package relay_test

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRelayAnswersProbesUnderItsPin(t *testing.T) {
	t.Parallel()
	made, err := relay.NewState(time.Now(), "relay.example.org", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	state, err := relay.ParseState(made.Bytes())
	if err != nil || state.Pin() != made.Pin() {
		t.Fatalf("read back %v", err)
	}
	r, err := relay.New(state, func(key.NodePublic) bool { return false }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the pin is compared below
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for path, want := range map[string]int{
		"/derp/probe": http.StatusOK, "/derp/latency-check": http.StatusOK,
		"/derp": http.StatusUpgradeRequired, "/": http.StatusNotFound, "/debug/vars": http.StatusNotFound,
	} {
		resp, err := client.Get("https://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
		if pin := fmt.Sprintf("sha256-raw:%x", sha256.Sum256(resp.TLS.PeerCertificates[0].Raw)); pin != state.Pin() {
			t.Errorf("the certificate is %s, pinned is %s", pin, state.Pin())
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestRubbishIsNoState(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "{}", "rubbish", `{"certificate":"AAAA","tls_key":"AAAA","key":"x"}`} {
		if _, err := relay.ParseState([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a relay's state", bad)
		}
	}
}

func TestRegionRefuses(t *testing.T) {
	t.Parallel()
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "192.0.2.1", ":443", "192.0.2.1:0", "192.0.2.1:70000", "relay.example.org:443"} {
		if _, err := state.Region(bad); err == nil {
			t.Errorf("%q was taken for a relay's address", bad)
		}
	}
}
