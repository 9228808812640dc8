// Package tunneltest holds every transport to one description of what a tunnel does.
package tunneltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/tunnel"
)

// Patience is how long the suite waits for what a loaded machine may be slow at.
const Patience = 90 * time.Second

// Rig makes the two ends of a transport. Every call to Server resumes the same identity.
type Rig struct {
	// Server opens the end that listens, ready to be dialled.
	Server func(t *testing.T) tunnel.Tunnel
	// Client opens the end that dials, for a host of that name that the server lets in.
	Client func(t *testing.T, name string) tunnel.Tunnel
	// Stranger opens a client that nobody let in. Making it may fail already.
	Stranger func(t *testing.T) (tunnel.Tunnel, error)
}

const port = 80

// Run is the suite. fresh makes a rig for each test.
func Run(t *testing.T, fresh func(t *testing.T) Rig) {
	t.Run("carries bytes and knows who sent them", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		server := r.Server(t)
		names := make(chan string, 1)
		serve(t, server, func(c net.Conn) {
			who, err := server.WhoIs(t.Context(), c.RemoteAddr())
			if err != nil {
				t.Errorf("who-is: %v", err)
			}
			names <- who.Name
			_, _ = io.Copy(c, c)
			closeWrite(c)
		})
		client := r.Client(t, "host-1")
		if got := echo(t, client, []byte("hello")); string(got) != "hello" {
			t.Errorf("got %q back", got)
		}
		if name := <-names; name != "host-1" {
			t.Errorf("the server took the host for %q", name)
		}
		if st, err := server.Status(t.Context()); err != nil || !st.Ready || st.Transport == "" {
			t.Errorf("the server's status is %+v, %v", st, err)
		}
		if st, err := client.Status(t.Context()); err != nil || !st.Ready {
			t.Errorf("the client's status is %+v, %v", st, err)
		}
	})
	t.Run("who-is refuses an address that nobody has", func(t *testing.T) {
		t.Parallel()
		server := fresh(t).Server(t)
		_, err := server.WhoIs(t.Context(), &net.TCPAddr{IP: net.ParseIP("fd7a:115c:a1e0::77"), Port: 1})
		if !errors.Is(err, tunnel.ErrStranger) {
			t.Errorf("got %v, want ErrStranger", err)
		}
	})
	t.Run("half of a connection can be closed", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		serve(t, r.Server(t), func(c net.Conn) {
			all, err := io.ReadAll(c) // ends only when the client has closed its half
			if err != nil {
				t.Errorf("the server read: %v", err)
			}
			_, _ = fmt.Fprintf(c, "%d bytes", len(all))
		})
		if got := echo(t, r.Client(t, "host-1"), make([]byte, 1000)); string(got) != "1000 bytes" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("large transfers arrive whole", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		serve(t, r.Server(t), func(c net.Conn) {
			sum := sha256.New()
			if _, err := io.Copy(sum, c); err != nil {
				t.Errorf("the server read: %v", err)
			}
			_, _ = c.Write(sum.Sum(nil))
		})
		data := make([]byte, 16<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		want := sha256.Sum256(data)
		if got := echo(t, r.Client(t, "host-1"), data); !bytes.Equal(got, want[:]) {
			t.Error("what arrived is not what was sent")
		}
	})
	t.Run("many connections at once", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		serve(t, r.Server(t), func(c net.Conn) { _, _ = io.Copy(c, c); closeWrite(c) })
		client := r.Client(t, "host-1")
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				want := fmt.Sprintf("connection %d", i)
				if got := echo(t, client, []byte(want)); string(got) != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a stranger gets nothing", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		server := r.Server(t)
		serve(t, server, func(c net.Conn) { t.Errorf("a stranger came in from %v", c.RemoteAddr()) })
		stranger, err := r.Stranger(t)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		c, err := stranger.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", tunnel.Name, port))
		if err == nil {
			defer c.Close()
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("a stranger was answered")
			}
		}
	})
	t.Run("clients come back to a server that was restarted", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		first := r.Server(t)
		serve(t, first, func(c net.Conn) { _, _ = io.Copy(c, c); closeWrite(c) })
		client := r.Client(t, "host-1")
		echo(t, client, []byte("before"))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		serve(t, r.Server(t), func(c net.Conn) { _, _ = io.Copy(c, c); closeWrite(c) })
		ready := time.Now()
		for {
			got, err := try(t.Context(), client, []byte("after"), 5*time.Second)
			if err == nil && string(got) == "after" {
				break
			}
			if time.Since(start) > Patience {
				t.Fatalf("the client did not come back: %v", err)
			}
		}
		t.Logf("back %v after the server was ready", time.Since(ready).Round(time.Millisecond))
		if back := time.Since(ready); back > time.Minute {
			t.Errorf("back only after %v", back)
		}
	})
	t.Run("closing ends what is open", func(t *testing.T) {
		t.Parallel()
		r := fresh(t)
		server := r.Server(t)
		l, err := server.Listen(port)
		if err != nil {
			t.Fatal(err)
		}
		client := r.Client(t, "host-1")
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				accepted <- c
			}
			close(accepted)
		}()
		c := dial(t, client)
		<-accepted
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		client.Close()
		select {
		case err := <-read:
			if err == nil {
				t.Error("a closed tunnel has given a byte")
			}
		case <-time.After(Patience):
			t.Fatal("a read goes on after its tunnel was closed")
		}
		if _, err := client.Dial(t.Context(), "tcp", fmt.Sprintf("%s:%d", tunnel.Name, port)); err == nil {
			t.Error("a closed tunnel has dialled")
		}
		server.Close()
		if _, err := l.Accept(); err == nil {
			t.Error("a closed listener has accepted")
		}
	})
}

// serve answers connections until the test ends.
func serve(t *testing.T, server tunnel.Tunnel, handle func(net.Conn)) {
	t.Helper()
	l, err := server.Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		server.Close()
		wg.Wait()
	})
}

func dial(t *testing.T, client tunnel.Tunnel) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c, err := client.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", tunnel.Name, port))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo sends data, closes its half and gives what came back.
func echo(t *testing.T, client tunnel.Tunnel, data []byte) []byte {
	t.Helper()
	got, err := try(t.Context(), client, data, Patience)
	if err != nil {
		t.Errorf("echo: %v", err)
	}
	return got
}

func try(ctx context.Context, client tunnel.Tunnel, data []byte, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := client.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", tunnel.Name, port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	if _, err := c.Write(data); err != nil {
		return nil, err
	}
	closeWrite(c)
	return io.ReadAll(c)
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
