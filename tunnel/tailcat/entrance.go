package tailcat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	upstream "github.com/tailscale/tailcat"
	"tailscale.com/tailcfg"
	"tailscale.com/types/key"
	"tailscale.com/types/logger"

	"github.com/zoomies-fleet/zoomies/tunnel/quiet"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
)

// Entrance is one address of a server: who it is, and the relay to find it at.
type Entrance struct {
	Identity Identity

	// Relay is the relay to run for it, on Listener. Without a Listener it is the one that
	// runs for another entrance with the same Relay.
	Relay    relay.State
	Listener net.Listener
	// Addresses are the host:port pairs under which clients dial the relay, in the order to
	// try them. None means the listener's own.
	Addresses []string

	// Via uses the relay of another server's address, instead of running one.
	Via string
}

type entrance struct {
	identity Identity
	address  string
	node     *upstream.Server
	pin      string // of the relay of ours that it uses, if any
	ready    chan struct{}
	once     sync.Once
}

func (e *entrance) isReady() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// Open adds an entrance and makes it the current one. The older ones answer until Shut. What it
// returns is the address to hand out.
func (s *Server) Open(e Entrance) (string, error) { return s.open(e, true) }

func (s *Server) open(e Entrance, current bool) (string, error) {
	address, unused, err := s.openLocked(e, current)
	if unused != nil {
		_ = unused.Close()
	}
	return address, err
}

func (s *Server) openLocked(e Entrance, current bool) (address string, unused *relay.Relay, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", nil, net.ErrClosed
	}
	for _, other := range s.entrances {
		if other.identity.private.Equal(e.Identity.private) {
			return "", nil, errors.New("cannot open an entrance: that identity has one already")
		}
	}
	inside, outside, pin, err := s.relayFor(e)
	if err != nil {
		return "", nil, err
	}
	made := &entrance{identity: e.Identity, address: addressOf(e.Identity, outside), pin: pin, ready: make(chan struct{})}
	made.node = &upstream.Server{
		Key: e.Identity.private, Region: inside,
		Logf: made.watch(quiet.Logf(s.log)),
		// An empty list would admit everybody, so there is always a key that nobody has.
		AllowedClients: append(s.members.keys(), key.NewNode().Public()),
		OnTCP: func(port uint16) func(net.Conn) {
			if !s.listens(port) {
				return nil
			}
			return func(c net.Conn) { s.accept(port, c) }
		},
	}
	if err := made.node.Start(); err != nil {
		return "", s.releaseRelay(made), fmt.Errorf("cannot open the tunnel: %w", err)
	}
	// Hosts admitted meanwhile: AddAllowedClient only reaches entrances in the list.
	for _, k := range s.members.keys() {
		made.node.AddAllowedClient(k)
	}
	if current {
		s.entrances = append([]*entrance{made}, s.entrances...)
	} else {
		s.entrances = append(s.entrances, made)
	}
	return made.address, nil, nil
}

// Shut ends the entrance with that address. The last one cannot be shut: close the server.
func (s *Server) Shut(address string) error {
	s.mu.Lock()
	for i, e := range s.entrances {
		if e.address != address {
			continue
		}
		if len(s.entrances) == 1 {
			s.mu.Unlock()
			return errors.New("cannot shut the only entrance of the tunnel: open another one first")
		}
		s.entrances = append(s.entrances[:i:i], s.entrances[i+1:]...)
		s.mu.Unlock()
		return s.shut(e)
	}
	s.mu.Unlock()
	return errors.New("cannot shut an entrance of the tunnel: there is none with that address")
}

// Addresses are those of all entrances, the current one first.
func (s *Server) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, e := range s.entrances {
		all = append(all, e.address)
	}
	return all
}

// WaitReady waits until every entrance has settled at its relay, which takes about three
// seconds. A client that asks before that must ask again.
func (s *Server) WaitReady(ctx context.Context) error {
	s.mu.Lock()
	entrances := append([]*entrance(nil), s.entrances...)
	s.mu.Unlock()
	for _, e := range entrances {
		select {
		case <-e.ready:
		case <-ctx.Done():
			return fmt.Errorf("cannot settle at the tunnel's relay: %w", ctx.Err())
		}
	}
	return nil
}

// watch notices in the library's log when the relay's connection is up: nothing else tells.
// A test fails when the wording changes.
func (e *entrance) watch(logf logger.Logf) logger.Logf {
	return func(format string, args ...any) {
		if strings.Contains(format, "derp-%d connected; connGen=") || strings.Contains(format, "derp-%v connected; connGen=") {
			e.once.Do(func() { close(e.ready) })
		}
		logf(format, args...)
	}
}

func (s *Server) listens(port uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return port == heartPort || s.listeners[port] != nil
}

// relayFor finds or starts the entrance's relay, and describes it as seen from this process
// and from clients.
func (s *Server) relayFor(e Entrance) (inside, outside *tailcfg.DERPRegion, pin string, err error) {
	if e.Via != "" {
		info, err := parseAddress(e.Via)
		if err != nil {
			return nil, nil, "", err
		}
		return info.Region[0], info.Region[0], "", nil
	}
	pin = e.Relay.Pin()
	shared := s.relays[pin]
	switch {
	case shared == nil && e.Listener == nil:
		return nil, nil, "", errors.New("cannot open an entrance of the tunnel: its relay does not run, and there is no listener to run it on")
	case shared != nil && e.Listener != nil:
		return nil, nil, "", errors.New("cannot open an entrance of the tunnel: its relay runs already, on another listener")
	}
	var dial string
	addresses := e.Addresses
	if shared != nil {
		dial = shared.dial
	} else {
		dial = dialable(e.Listener.Addr())
	}
	if len(addresses) == 0 {
		addresses = []string{dial}
	}
	if inside, err = e.Relay.Region(dial); err != nil {
		return nil, nil, "", err
	}
	if outside, err = e.Relay.Region(addresses...); err != nil {
		return nil, nil, "", err
	}
	if shared == nil {
		r, err := relay.New(e.Relay, s.letsIn, s.log)
		if err != nil {
			return nil, nil, "", err
		}
		shared = &sharedRelay{Relay: r, dial: dial, servers: make(map[key.NodePublic]bool)}
		s.relays[pin] = shared
		go func() {
			if err := r.Serve(e.Listener); err != nil {
				s.log.Error("the tunnel's relay has ended", "err", err)
			}
		}()
	}
	shared.servers[e.Identity.private.Public()] = true
	return inside, outside, pin, nil
}

// releaseRelay returns the relay to close, if the entrance was the last that used it. s.mu is held.
func (s *Server) releaseRelay(e *entrance) *relay.Relay {
	shared := s.relays[e.pin]
	if shared == nil {
		return nil
	}
	delete(shared.servers, e.identity.private.Public())
	if len(shared.servers) > 0 {
		return nil
	}
	delete(s.relays, e.pin)
	return shared.Relay
}

func (s *Server) shut(e *entrance) error {
	err := e.node.Close()
	s.mu.Lock()
	last := s.releaseRelay(e)
	s.mu.Unlock()
	if last != nil {
		err = errors.Join(err, last.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot close the tunnel cleanly: %w", err)
	}
	return nil
}

// dialable is where this process reaches its own listener: not by the public address, which
// many routers do not lead back inside.
func dialable(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := ap.Addr().Unmap(); ip.IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port()).String()
	}
	return ap.String()
}
