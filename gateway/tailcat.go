package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
)

// Port is where a gateway listens inside the tunnel, whatever its target's port is.
const Port = 8006

// Tailcat is a Tunnel over the controller's own relay. It connects outward only, and opens no port of the machine's.
type Tailcat struct {
	// Relay is the controller's address in the tunnel: the gateway is found at the same relay.
	Relay string
	// Admit is the controller's public key. Nobody else gets a connection.
	Admit string
	Log   *slog.Logger

	mu     sync.Mutex
	server *tailcat.Server
}

var _ Tunnel = (*Tailcat)(nil)

// NewIdentity implements Tunnel.
func (*Tailcat) NewIdentity() ([]byte, error) { return []byte(tailcat.NewIdentity().Secret()), nil }

// Address implements Tunnel. It begins to look for the relay, and does not wait for it.
func (t *Tailcat) Address(identity []byte) (string, error) {
	s, err := t.open(identity)
	if err != nil {
		return "", err
	}
	return s.Addresses()[0], nil
}

// Listen implements Tunnel.
func (t *Tailcat) Listen(ctx context.Context, identity []byte) (net.Listener, error) {
	s, err := t.open(identity)
	if err != nil {
		return nil, err
	}
	if err := s.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	ln, err := s.Listen(Port)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return ln, nil
}

// Close implements Tunnel.
func (t *Tailcat) Close() error {
	t.mu.Lock()
	s := t.server
	t.server = nil
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}

func (t *Tailcat) open(identity []byte) (*tailcat.Server, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server != nil {
		return t.server, nil
	}
	if t.Admit == "" { // somebody must be the only one
		return nil, errors.New("cannot open the tunnel: nobody is named who may connect")
	}
	id, err := tailcat.ParseIdentity(string(identity))
	if err != nil {
		return nil, fmt.Errorf("cannot use the gateway's identity: %w", err)
	}
	t.server, err = tailcat.Serve(tailcat.Options{
		Entrances: []tailcat.Entrance{{Identity: id, Via: t.Relay}}, Hosts: []tailcat.Host{{Name: "controller", Public: t.Admit}}, Log: t.Log,
	})
	return t.server, err
}
