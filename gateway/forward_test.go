package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// listen is a listener on the loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// target serves every connection with serve, and returns its address.
func target(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	ln := listen(t)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return ln.Addr().String()
}

// running is a forwarder that runs; stop ends it and returns what Serve returned.
func running(t *testing.T, f *Forwarder) (address string, stop func() error) {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx, ln) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return ln.Addr().String(), stop
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n))) // only different
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// The end of what the client sends arrives as such, while the answer is still to come; and every byte arrives, both ways.
func TestOneDirectionEndsBeforeTheOther(t *testing.T) {
	t.Parallel()
	question, answer := random(1<<20), random(3<<20)
	heard := make(chan []byte, 1)
	address, _ := running(t, &Forwarder{Target: target(t, func(c *net.TCPConn) {
		defer c.Close()
		all, _ := io.ReadAll(c) // ends with the client's direction
		heard <- all
		_, _ = c.Write(answer)
	})})
	c := dial(t, address)
	if _, err := c.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, answer) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(answer), err)
	}
	if all := <-heard; !bytes.Equal(all, question) {
		t.Errorf("%d of %d bytes arrived", len(all), len(question))
	}
}

// And the other way round: the target has said all, and still listens.
func TestTheTargetEndsFirst(t *testing.T) {
	t.Parallel()
	heard := make(chan []byte, 1)
	address, _ := running(t, &Forwarder{Target: target(t, func(c *net.TCPConn) {
		defer c.Close()
		_, _ = c.Write([]byte("bye"))
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		heard <- all
	})})
	c := dial(t, address)
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("and yet")); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if all := <-heard; string(all) != "and yet" {
		t.Errorf("%q arrived", all)
	}
}

// TLS is between the two ends: the client sees the target's own certificate.
func TestTLSPassesThrough(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("pve")) }))
	t.Cleanup(srv.Close)
	address, _ := running(t, &Forwarder{Target: srv.Listener.Addr().String()})
	client := srv.Client()
	t.Cleanup(client.CloseIdleConnections)
	transport := client.Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "example.com"}
	resp, err := client.Get("https://example.com/version") // it cannot hang: both ends are here
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "pve" || !resp.TLS.PeerCertificates[0].Equal(srv.Certificate()) {
		t.Errorf("%q", body)
	}
}

// A connection that broke must not look like one that came to its end.
func TestABreakIsPassedOnAsOne(t *testing.T) {
	t.Parallel()
	address, _ := running(t, &Forwarder{Target: target(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("half"))
		one := make([]byte, 1)
		_, _ = c.Read(one) // the client has the half
		_ = c.SetLinger(0)
		_ = c.Close()
	})})
	c := dial(t, address)
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestNoMoreThanSoManyAreOpen(t *testing.T) {
	t.Parallel()
	f := &Forwarder{MaxConns: 2, Target: target(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c); _ = c.Close() })}
	address, stop := running(t, f)
	echo := func(c net.Conn) error {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	open := []*net.TCPConn{dial(t, address), dial(t, address)}
	for _, c := range open {
		if err := echo(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := echo(dial(t, address)); err == nil {
		t.Error("a third is carried")
	}
	for _, c := range open {
		if err := echo(c); err != nil {
			t.Errorf("those that were open suffer: %v", err)
		}
		_ = c.Close()
	}
	// A slot is free again once both directions have ended, which the counts say.
	for f.Counts().Open > 0 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtimeYield()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := f.Counts(); c.Accepted != 2 || c.Refused != 1 || c.BytesIn != 4 || c.BytesOut != 4 {
		t.Errorf("counts: %+v", c)
	}
}

// What is under way when the gateway stops may end; what does not is cut.
func TestStoppingLetsConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"ends": time.Hour, "is cut": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &Forwarder{StopGrace: grace, Target: target(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c); _ = c.Close() })}
			ln := listen(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- f.Serve(ctx, ln) }()
			c := dial(t, ln.Addr().String())
			one := make([]byte, 1)
			_, _ = c.Write([]byte("x"))
			if _, err := io.ReadFull(c, one); err != nil {
				t.Fatal(err)
			}
			cancel()
			if grace == time.Hour {
				_, _ = c.Write([]byte("y"))
				if _, err := io.ReadFull(c, one); err != nil {
					t.Errorf("cut while it stops: %v", err)
				}
				_ = c.CloseWrite()
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := c.Read(one); err == nil {
				t.Error("it still goes on")
			}
		})
	}
}

func TestATargetThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	gone := listen(t)
	_ = gone.Close()
	said := make(chan Counts, 1)
	f := &Forwarder{Target: gone.Addr().String(), Changed: func(c Counts) { said <- c }}
	address, _ := running(t, f)
	if _, err := io.ReadAll(dial(t, address)); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
	if c := <-said; c.Failed != 1 || c.TargetError == "" || c.Open != 0 {
		t.Errorf("counts: %+v", c)
	}
	if w, detail := of(f.Counts(), f.Target); w != Failing || detail == "" {
		t.Errorf("%s, %q", w, detail)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "pve1", ":8006", "pve1:", "pve1:0", "pve1:70000", "https://pve1:8006", "a:1,b:2"} {
		if CheckTarget(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, good := range []string{"127.0.0.1:8006", "pve1.example.org:8006", "[::1]:8006"} {
		if err := CheckTarget(good); err != nil {
			t.Error(err)
		}
	}
}

// A connection that carries nothing is ended; one that carries something in one direction alone is not.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, in := net.Pipe()
		out, server := net.Pipe()
		p := &pipe{a: in, b: out, idle: time.Minute}
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- p.run(t.Context()) }()
		for range 5 {
			time.Sleep(50 * time.Second) // the bubble's own time
			go func() { _, _ = server.Write([]byte("x")) }()
			if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-ended; !errors.Is(err, errIdle) {
			t.Errorf("ended with %v", err)
		}
		if lasted := time.Since(began); lasted != 310*time.Second {
			t.Errorf("it lasted %s", lasted)
		}
		_, _ = client.Close(), server.Close()
	})
}
