package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
)

// Variables of a machine that reaches its controller through a tunnel.
const (
	TunnelVariable    = "ZOOMIES_TUNNEL"     // the controller's address in the tunnel
	TunnelKeyVariable = "ZOOMIES_TUNNEL_KEY" // this host's key; a secret
)

// Tunnel is a way to the controller and to nothing else.
type Tunnel interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Close() error
}

// TunnelOptions say where a tunnel leads.
type TunnelOptions struct {
	Address  string // of the controller in the tunnel
	Key      string // this host's; a secret that must reach no log and no error
	Name     string // this host's
	StateDir string // a folder that the tunnel may make and keep things in
	Logger   *slog.Logger
}

// OpenTunnel opens a tunnel. It lives until it is closed; ctx bounds the opening alone.
type OpenTunnel func(ctx context.Context, o TunnelOptions) (Tunnel, error)

func (open OpenTunnel) open(ctx context.Context, o TunnelOptions) (Tunnel, error) {
	if open == nil {
		return nil, errors.New("cannot reach the controller through a tunnel: this build has no tunnel; unset $" + TunnelVariable + ", or use another build")
	}
	t, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("cannot open the tunnel to the controller: %w", err)
	}
	return t, nil
}

// tunnelWanted reads the environment; no child process inherits the key. Without an address no tunnel is wanted.
func tunnelWanted() (TunnelOptions, error) {
	key, err := takeVariable(TunnelKeyVariable)
	if err != nil {
		return TunnelOptions{}, err
	}
	o := TunnelOptions{Address: os.Getenv(TunnelVariable), Key: key}
	switch {
	case o.Address == "" && o.Key != "":
		return TunnelOptions{}, errors.New("cannot use $" + TunnelKeyVariable + " without an address: set $" + TunnelVariable + ", too")
	case o.Address != "" && o.Key == "":
		return TunnelOptions{}, errors.New("cannot open a tunnel without a key: set $" + TunnelKeyVariable + ", too")
	}
	return o, nil
}
