// Package tunnel is what the fleet knows of a private, userspace network: how to listen on it,
// dial through it, and who is at the other end. The transports are in the packages below it:
// tailcat, which needs no account, and tailnet, over Tailscale or Headscale. Package
// tunnel/dialer picks the one that an address asks for.
//
// No transport opens a port of the operating system for what it carries, adds a route, or dials
// anything but what its address names.
package tunnel

import (
	"context"
	"errors"
	"net"
	"time"
)

// Name is the host that agents name in URLs whose connections lead to the controller.
const Name = "controller"

// Errors that callers branch on.
var (
	// ErrOneWay says that this end of the transport cannot do what was asked: a tailcat client
	// only dials, and a tailcat server only listens.
	ErrOneWay = errors.New("this end of the tunnel does not do that")
	// ErrDown says that there is no connection to the other end now. It is being made anew;
	// asking again later is right.
	ErrDown = errors.New("the tunnel is down")
	// ErrStranger says that nobody by that address or key is admitted.
	ErrStranger = errors.New("not admitted to the tunnel")
	// ErrEnrol says that the node is gone from its tailnet and that enrolling it once more did
	// not work: an operator must give it a new key.
	ErrEnrol = errors.New("the tailnet no longer knows this node, and its key does not enrol it again")
	// ErrAddress says that an address or key is not one of a tunnel's.
	ErrAddress = errors.New("not a tunnel address")
)

// A Tunnel is one end of a private network. It is safe for concurrent use.
type Tunnel interface {
	// Listen accepts what arrives for a TCP port of this end. Closing the listener leaves
	// the tunnel open.
	Listen(port uint16) (net.Listener, error)
	// Dial connects to a TCP address at the other end. It waits for the tunnel until ctx ends
	// and fails with ErrDown then.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// WhoIs says whose address that is, from keys that were proven and never from what the
	// other end says of itself. Unknown and revoked peers are ErrStranger.
	WhoIs(ctx context.Context, remote net.Addr) (Peer, error)
	// Status says how this end is.
	Status(ctx context.Context) (Status, error)
	// Close ends every connection and listener.
	Close() error
}

// A Peer is a proven identity.
type Peer struct {
	Name string   // the name it was admitted or enrolled under
	Key  string   // its public key
	Tags []string // of a tailnet's node
}

// Status is how one end of a tunnel is.
type Status struct {
	Transport string // tailcat or tailnet
	Ready     bool   // others can reach it, or it reaches the server
	Address   string // what others are given to reach it; empty at a client
	Peers     []PeerStatus
	Problem   error // why it is not ready, if that is known
}

// PeerStatus is how a peer was last seen.
type PeerStatus struct {
	Peer
	Connected bool
	LastSeen  time.Time // zero when it was not seen since the tunnel was opened
}
