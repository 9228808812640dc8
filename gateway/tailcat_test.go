package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
)

// controller is a controller's tunnel with its relay, on the loopback.
func controllerTunnel(t *testing.T) *tailcat.Server {
	t.Helper()
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := tailcat.Serve(tailcat.Options{Entrances: []tailcat.Entrance{{Identity: tailcat.NewIdentity(), Relay: state, Listener: listen(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A gateway finds the controller's relay, waits until it is let in, and then carries the controller's connections and nobody else's.
func TestThroughTheRealTunnel(t *testing.T) {
	t.Parallel()
	server := controllerTunnel(t)
	me, stranger := tailcat.NewIdentity(), tailcat.NewIdentity()
	for _, id := range []tailcat.Identity{me, stranger} {
		if err := server.AdmitToRelay(id.Public()); err != nil {
			t.Fatal(err)
		}
	}
	answer := random(200 << 10)
	api := target(t, func(c *net.TCPConn) {
		defer c.Close()
		question, _ := io.ReadAll(c)
		_, _ = c.Write(append(question, answer...))
	})
	tun := &Tailcat{Relay: server.Addresses()[0], Admit: me.Public()}
	dir := filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{StateDir: dir, Target: api, Tunnel: tun, Ready: func() { ready <- struct{}{} }})
	}()
	address := ""
	for address == "" { // it is said before the relay lets the gateway in
		st, err := ReadStatus(dir)
		if err != nil {
			t.Fatal(err)
		}
		address = st.Address
		runtimeYield()
	}
	id, err := identityOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.AdmitToRelay(id.Public()); err != nil {
		t.Fatal(err)
	}
	<-ready
	connect := func(id tailcat.Identity) *tailcat.Client {
		c, err := tailcat.Connect(tailcat.ClientOptions{Address: address, Identity: id})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c, err := connect(me).Dial(t.Context(), "tcp", "gateway:8006")
	if err != nil {
		t.Fatal(err)
	}
	question := random(100 << 10)
	if _, err := c.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, append(question, answer...)) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	_ = c.Close()
	short, end := context.WithTimeout(t.Context(), 5*time.Second)
	defer end()
	if c, err := connect(stranger).Dial(short, "tcp", "gateway:8006"); err == nil {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if n, _ := c.Read(make([]byte, 1)); n > 0 {
			t.Error("a stranger gets through")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// identityOf reads a running gateway's identity.
func identityOf(dir string) (tailcat.Identity, error) {
	raw, err := (&State{dir: dir}).Read(identityFile)
	if err != nil {
		return tailcat.Identity{}, err
	}
	return tailcat.ParseIdentity(string(raw))
}
