package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/certs"
)

const patience = 30 * time.Second

// Every route that streams is one that the controller's end cuts off.
func TestStreamsAreKnown(t *testing.T) {
	t.Parallel()
	n := 0
	for _, g := range auth.Guards {
		if g.Method == "" {
			continue
		}
		stream := strings.Contains(g.Summary, "server-sent events")
		if stream {
			n++
		}
		if got := lasts(httptest.NewRequest(g.Method, strings.NewReplacer("{", "", "}", "").Replace(g.Path), nil)); got != stream {
			t.Errorf("%s %s: lasts is %v", g.Method, g.Path, got)
		}
	}
	if n < 2 || !lasts(httptest.NewRequest(http.MethodGet, protocol.PathTasks, nil)) || !lasts(httptest.NewRequest(http.MethodPost, protocol.PathLogs+"x", nil)) ||
		lasts(httptest.NewRequest(http.MethodPost, protocol.PathHeartbeat, nil)) {
		t.Errorf("%d streams were found, or an agent's call is not known", n)
	}
}

// serveTest serves h with TLS and HTTP/2, and returns a client, the URL and what ends the server.
func serveTest(t *testing.T, h http.HandlerFunc) (*http.Client, string, func() error) {
	t.Helper()
	a, err := certs.Open(certs.Options{Dir: t.TempDir(), Names: func() []string { return []string{"127.0.0.1"} }})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	conf := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.GetCertificate}
	go func() {
		done <- serveUntil(ctx, &http.Server{Handler: h, TLSConfig: conf, ReadHeaderTimeout: headerRead}, ln, slog.New(slog.DiscardHandler))
	}()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true} // whose it is is not the question here
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, "https://" + ln.Addr().String(), func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return errors.New("the server does not end")
		}
	}
}

func TestTheEndOfTheControllerEndsStreamsAndLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	began, finish := make(chan string, 2), make(chan struct{})
	ended := make(chan struct{})
	client, url, stop := serveTest(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		began <- r.Proto
		if lasts(r) {
			<-r.Context().Done()
			close(ended)
			return
		}
		<-finish
		_, _ = io.WriteString(w, "finished")
	})
	get := func(path string) (string, error) {
		resp, err := client.Get(url + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if _, err := get("/healthz"); err != nil { // so that both use one connection; an unused one would spend the grace
		t.Fatal(err)
	}
	go func() { _, _ = get("/api/v1/events") }()
	quick := make(chan string, 1)
	go func() {
		body, err := get("/api/v1/pools")
		if err != nil {
			body = err.Error()
		}
		quick <- body
	}()
	for range 2 {
		if proto := <-began; proto != "HTTP/2.0" {
			t.Errorf("served with %s", proto)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case <-ended: // while the other request still goes on
	case <-time.After(patience):
		t.Fatal("the stream goes on")
	}
	close(finish)
	if got := <-quick; got != "finished" {
		t.Errorf("a request was cut off: %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// An agent that sends a log and falls silent does not hold the controller's end up.
func TestTheEndOfTheControllerEndsALogThatIsSent(t *testing.T) {
	t.Parallel()
	reading, ended := make(chan struct{}), make(chan error, 1)
	client, url, stop := serveTest(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		close(reading)
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = false // as agents have it
	body, in := io.Pipe()
	defer in.Close()
	go func() {
		if resp, err := client.Post(url+protocol.PathLogs+"x", "application/octet-stream", body); err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, _ = in.Write([]byte("x"))
	<-reading
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the log ended with its connection, and not before it: %v", err)
	}
}
