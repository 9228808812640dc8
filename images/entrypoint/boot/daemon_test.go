package boot

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"":                               "unix:///var/run/docker.sock",
		"unix:///run/podman/podman.sock": "unix:///run/podman/podman.sock",
		"tcp://127.0.0.1:2375":           "tcp://127.0.0.1:2375",
		"tcp://[::1]:2375/":              "tcp://[::1]:2375",
		" tcp://daemon:2375\n":           "tcp://daemon:2375", //nolint:gocritic // the space is what is tried
		"unix://relative":                "",
		"tcp://daemon":                   "",
		"tcp://:2375":                    "",
		"ssh://user@machine":             "",
		"/var/run/docker.sock":           "",
		"npipe:////./pipe/docker":        "",
	} {
		got, err := ParseEndpoint(host)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was accepted as %s", host, got)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%q is %s (%v), want %s", host, got, err, want)
		}
	}
}

// serve makes a daemon of handler and returns where it listens.
func serve(t *testing.T, network, address string, handler http.HandlerFunc) Endpoint {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	srv.Start()
	t.Cleanup(srv.Close)
	return Endpoint{Network: network, Address: l.Addr().String()}
}

func ping(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/_ping" {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte("OK"))
}

func TestAwaitFindsARealDaemon(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Endpoint{
		"unix": serve(t, "unix", filepath.Join(t.TempDir(), "d.sock"), ping),
		"tcp":  serve(t, "tcp", "127.0.0.1:0", ping),
	} {
		if err := e.Await(context.Background(), time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAwaitIsNotContentWithAnyListener(t *testing.T) {
	t.Parallel()
	e := serve(t, "tcp", "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	err := e.Await(context.Background(), 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not as a container daemon") {
		t.Fatalf("error %v", err)
	}
}

// script answers each dial with the next function; the last one repeats.
func script(steps ...func(net.Conn)) (dial dialFunc, dials *int) {
	dials = new(int)
	return func(context.Context) (net.Conn, error) {
		step := steps[min(*dials, len(steps)-1)]
		*dials++
		if step == nil {
			return nil, syscall.ECONNREFUSED
		}
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				step(theirs)
			}
		}()
		return ours, nil
	}, dials
}

func answer(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\nOK")) }

// hang keeps the connection until the other side gives up.
func hang(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }

func TestOneHungProbeCostsFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, dials := script(hang, answer)
		begin := time.Now()
		if err := await(context.Background(), 2*time.Minute, dial); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != probeTimeout+probeFirstPause || *dials != 2 {
			t.Fatalf("took %s and %d dials", took, *dials)
		}
		if probeTimeout > 5*time.Second {
			t.Fatalf("a probe may take %s, the limit is 5 s", probeTimeout)
		}
	})
}

func TestAwaitGivesUpWhenTheWaitIsOver(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(net.Conn){
		"refused": nil,
		"hung":    hang,
		"garbage": func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0\r\n")) },
		"closed":  func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dial, _ := script(step)
				begin := time.Now()
				err := await(context.Background(), 17*time.Second, dial)
				if took := time.Since(begin); err == nil || took != 17*time.Second {
					t.Fatalf("took %s, error %v", took, err)
				}
			})
		})
	}
}

func TestAwaitWaitsForALateDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := slices.Repeat([]func(net.Conn){nil}, 100)
		dial, _ := script(append(refused, answer)...)
		begin := time.Now()
		if err := await(context.Background(), 2*time.Minute, dial); err != nil {
			t.Fatal(err)
		}
		// 25, 50, 100, 200, 400 and then 500 ms between probes.
		if took := time.Since(begin); took != 775*time.Millisecond+95*probeLongPause {
			t.Fatalf("took %s", took)
		}
	})
}

func TestASignalEndsTheWaitInsideAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, _ := script(hang)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(&signalError{signal: syscall.SIGTERM}) })
		begin := time.Now()
		err := await(ctx, 2*time.Minute, dial)
		var end *signalError
		if !errors.As(err, &end) || time.Since(begin) != time.Second {
			t.Fatalf("after %s: %v", time.Since(begin), err)
		}
	})
}
