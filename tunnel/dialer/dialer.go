// Package dialer is a host's way into the tunnel: it opens the transport that an address asks
// for, so that who uses it knows none of them.
package dialer

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
	"github.com/zoomies-fleet/zoomies/tunnel/tailnet"
)

// Options say how a host opens its tunnel.
type Options struct {
	Address string // ZOOMIES_TUNNEL
	Key     string // ZOOMIES_TUNNEL_KEY: this host's private key, or its pre-auth key
	Name    string // what the host is called, in a tailnet
	// Store keeps a tailnet node's state over restarts; nil forgets it, and then only a
	// reusable key survives one. Tailcat keeps nothing.
	Store tailnet.Store
	Log   *slog.Logger
}

// Dialer is an open tunnel, as a host sees it.
type Dialer struct {
	tunnel.Tunnel
	update func(address string) error
}

// Open opens the tunnel. It does not wait for it to come up: Dial does.
func Open(o Options) (*Dialer, error) {
	switch {
	case strings.HasPrefix(o.Address, tailnet.Prefix):
		a, err := tailnet.ParseAddress(o.Address)
		if err != nil {
			return nil, err
		}
		n, err := tailnet.Join(tailnet.Options{
			Control: a.Control, Server: a.Node, Hostname: o.Name, Key: o.Key, Ephemeral: true, Store: o.Store, Log: o.Log,
		})
		if err != nil {
			return nil, err
		}
		return &Dialer{Tunnel: n}, nil
	case strings.HasPrefix(o.Address, tailcat.Prefix):
		identity, err := tailcat.ParseIdentity(o.Key)
		if err != nil {
			return nil, err
		}
		c, err := tailcat.Connect(tailcat.ClientOptions{Address: o.Address, Identity: identity, Log: o.Log})
		if err != nil {
			return nil, err
		}
		return &Dialer{Tunnel: c, update: c.Update}, nil
	default:
		return nil, fmt.Errorf("cannot open the tunnel: %w: it must begin with %s or %s", tunnel.ErrAddress, tailcat.Prefix, tailnet.Prefix)
	}
}

// Update makes the host use another address from now on, without a restart. A tailnet's address
// does not change this way.
func (d *Dialer) Update(address string) error {
	if d.update == nil {
		return fmt.Errorf("cannot change the address: %w", tunnel.ErrOneWay)
	}
	return d.update(address)
}

// For opens the tunnel that the address asks for and gives what an HTTP client needs of it.
// It is Open for who never changes the address and keeps no state.
func For(address, key string, log *slog.Logger) (dial func(ctx context.Context, network, address string) (net.Conn, error), closeTunnel func() error, err error) {
	d, err := Open(Options{Address: address, Key: key, Name: "zoomies-host", Log: log})
	if err != nil {
		return nil, nil, err
	}
	return d.Dial, d.Close, nil
}
