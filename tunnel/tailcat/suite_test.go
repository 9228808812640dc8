package tailcat

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// world is a server's identity and the port of its relay, which outlive the server.
type world struct {
	identity Identity
	relay    relay.State
	port     string
	hosts    []Host
	server   *Server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &world{identity: NewIdentity(), relay: state, port: "127.0.0.1:0"}
}

func (w *world) listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", w.port)
	if err != nil {
		t.Fatal(err)
	}
	w.port = l.Addr().String()
	return l
}

func (w *world) serve(t testing.TB) *Server {
	t.Helper()
	s, err := Serve(Options{Entrances: []Entrance{{Identity: w.identity, Relay: w.relay, Listener: w.listen(t)}}, Hosts: w.hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.server = s
	return s
}

func (w *world) connect(t testing.TB, identity Identity) *Client {
	t.Helper()
	c, err := Connect(ClientOptions{Address: w.server.Addresses()[0], Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) join(t testing.TB, name string) *Client {
	t.Helper()
	identity := NewIdentity()
	h := Host{Name: name, Public: identity.Public()}
	w.hosts = append(w.hosts, h)
	if err := w.server.Admit(h); err != nil {
		t.Fatal(err)
	}
	return w.connect(t, identity)
}

func TestConformance(t *testing.T) {
	tunneltest.Run(t, func(t *testing.T) tunneltest.Rig {
		w := newWorld(t)
		return tunneltest.Rig{
			Server:   func(t *testing.T) tunnel.Tunnel { return w.serve(t) },
			Client:   func(t *testing.T, name string) tunnel.Tunnel { return w.join(t, name) },
			Stranger: func(t *testing.T) (tunnel.Tunnel, error) { return w.connect(t, NewIdentity()), nil },
		}
	})
}
