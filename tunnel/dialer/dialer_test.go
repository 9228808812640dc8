package dialer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/dialer"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

func TestForDialsWhatTheAddressSays(t *testing.T) {
	t.Parallel()
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := tailcat.NewIdentity()
	s, err := tailcat.Serve(tailcat.Options{
		Entrances: []tailcat.Entrance{{Identity: tailcat.NewIdentity(), Relay: state, Listener: l}},
		Hosts:     []tailcat.Host{{Name: "one", Public: host.Public()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in, err := s.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := in.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "hello")
		c.Close()
	}()
	dial, closeTunnel, err := dialer.For(s.Addresses()[0], host.Secret(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTunnel()
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	c, err := dial(ctx, "tcp", "controller:80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "https://controller", "tcrubbish", "tailnet:x", "tailnet:a@file:///x"} {
		if d, err := dialer.Open(dialer.Options{Address: bad, Key: tailcat.NewIdentity().Secret(), Name: "x"}); !errors.Is(err, tunnel.ErrAddress) {
			t.Errorf("%q: %v, %v", bad, d, err)
		}
	}
}
