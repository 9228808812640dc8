// Package tailcat is the tunnel that needs no account: WireGuard in userspace between hosts and
// one server, which find each other at a relay of the server's own. The server's address says
// all that a host needs, pins the relay's certificate, and lets nobody in by itself: each host
// has a key of its own, admitted and revoked one by one.
package tailcat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
)

// heartPort is the port inside the tunnel where clients ask whether the server is still there.
const heartPort = 2

// Options make a server.
type Options struct {
	// Entrances to open at first: the current one, and those that still answer during a rotation.
	Entrances []Entrance
	// Hosts that are admitted. None is admitted by default.
	Hosts []Host
	Log   *slog.Logger
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// Server is the end of a tunnel that clients reach. It is safe for concurrent use.
type Server struct {
	log     *slog.Logger
	members *members

	mu        sync.Mutex
	entrances []*entrance // the first one is current
	relays    map[string]*sharedRelay
	guests    map[key.NodePublic]bool // let into the relays, and no further
	listeners map[uint16]*listener
	closed    bool
}

var _ tunnel.Tunnel = (*Server)(nil)

// Serve opens the entrances. It does not wait for them to be ready: see WaitReady.
func Serve(o Options) (*Server, error) {
	if len(o.Entrances) == 0 {
		return nil, errors.New("cannot serve a tunnel without an entrance")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		log: o.Log, members: &members{byAddr: make(map[netip.Addr]*member), now: o.Now},
		relays: make(map[string]*sharedRelay), guests: make(map[key.NodePublic]bool),
		listeners: make(map[uint16]*listener),
	}
	for _, h := range o.Hosts {
		if err := s.Admit(h); err != nil {
			return nil, err
		}
	}
	for _, e := range o.Entrances {
		if _, err := s.open(e, false); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Admit lets a host in. It is safe to repeat.
func (s *Server) Admit(h Host) error {
	k, err := parsePublic(h.Public)
	if err != nil {
		return err
	}
	s.members.admit(h.Name, k)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entrances {
		e.node.AddAllowedClient(k)
	}
	return nil
}

// Revoke ends a host's connections and lets it in no more. It says whether it was admitted.
func (s *Server) Revoke(public string) (bool, error) {
	k, err := parsePublic(public)
	if err != nil {
		return false, err
	}
	was := s.members.revoke(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, k)
	for _, r := range s.relays {
		r.Cut(k)
	}
	return was, nil
}

// AdmitToRelay lets another server use the relay, and reach nothing here: a gateway, say, that
// cannot be dialled itself. Revoke takes it back.
func (s *Server) AdmitToRelay(public string) error {
	k, err := parsePublic(public)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guests[k] = true
	return nil
}

// Hosts are the admitted hosts, by name.
func (s *Server) Hosts() []Host {
	var hosts []Host
	for _, p := range s.members.status() {
		hosts = append(hosts, Host{Name: p.Name, Public: p.Key})
	}
	return hosts
}

// Listen implements tunnel.Tunnel.
func (s *Server) Listen(port uint16) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, net.ErrClosed
	case port == heartPort || port == 0:
		return nil, fmt.Errorf("cannot listen on port %d of the tunnel: it is the tunnel's own", port)
	case s.listeners[port] != nil:
		return nil, fmt.Errorf("cannot listen on port %d of the tunnel: something does already", port)
	}
	l := newListener(port, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, port)
	})
	s.listeners[port] = l
	return l, nil
}

// Dial implements tunnel.Tunnel: hosts accept nothing, so it always fails.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, fmt.Errorf("cannot dial a host: %w", tunnel.ErrOneWay)
}

// WhoIs implements tunnel.Tunnel.
func (s *Server) WhoIs(_ context.Context, remote net.Addr) (tunnel.Peer, error) {
	return s.members.whoIs(remote)
}

// Status implements tunnel.Tunnel. Ready is about the current entrance.
func (s *Server) Status(context.Context) (tunnel.Status, error) {
	st := tunnel.Status{Transport: "tailcat", Peers: s.members.status()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.entrances) == 0 {
		st.Problem = net.ErrClosed
		return st, nil
	}
	current := s.entrances[0]
	st.Address = current.address
	st.Ready = current.isReady()
	if r := s.relays[current.pin]; r != nil {
		st.Ready = st.Ready && r.Connected(current.identity.private.Public())
	}
	if !st.Ready {
		st.Problem = errors.New("not settled on the relay yet")
	}
	return st, nil
}

// Close implements tunnel.Tunnel.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	entrances, listeners := s.entrances, s.listeners
	s.entrances, s.listeners = nil, nil
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	s.members.closeAll()
	var errs []error
	for _, e := range entrances {
		errs = append(errs, s.shut(e))
	}
	return errors.Join(errs...)
}

// letsIn is whom the relays let in: the entrances themselves, hosts and guests.
func (s *Server) letsIn(k key.NodePublic) bool {
	if s.members.has(k) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests[k] {
		return true
	}
	for _, r := range s.relays {
		if r.servers[k] {
			return true
		}
	}
	return false
}

// accept takes what arrived for a port. It is called with any key the transport let in.
func (s *Server) accept(port uint16, raw net.Conn) {
	c := s.members.enter(raw)
	if c == nil {
		_ = raw.Close()
		return
	}
	if port == heartPort {
		s.answerHeart(c)
		return
	}
	s.mu.Lock()
	l := s.listeners[port]
	s.mu.Unlock()
	if l == nil {
		_ = c.Close()
		return
	}
	l.push(c)
}

// answerHeart sends back what it gets, for as long as it gets something.
func (s *Server) answerHeart(c net.Conn) {
	defer func() { _ = c.Close() }()
	s.members.beat(c.RemoteAddr(), +1)
	defer s.members.beat(c.RemoteAddr(), -1)
	one := make([]byte, 1)
	for {
		_ = c.SetDeadline(time.Now().Add(3 * HeartTimeout)) // a client that is gone says nothing
		if _, err := c.Read(one); err != nil {
			return
		}
		if _, err := c.Write(one); err != nil {
			return
		}
		s.members.beat(c.RemoteAddr(), 0)
	}
}

// sharedRelay is a relay of ours and the entrances that use it.
type sharedRelay struct {
	*relay.Relay
	dial    string                  // where this process reaches it
	servers map[key.NodePublic]bool // the entrances' keys
}
