// Package tailnet is the tunnel over a tailnet: tsnet in userspace, against Tailscale's control
// server or a Headscale. A node keeps its state where the caller says, and enrols itself again
// once when its tailnet no longer knows it.
package tailnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"tailscale.com/client/local"
	"tailscale.com/ipn"
	"tailscale.com/ipn/ipnstate"
	"tailscale.com/tsnet"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/quiet"
)

// Options make a node.
type Options struct {
	Control  string // the control server's URL, always written out
	Hostname string // what the node asks to be called
	// Server is the node that tunnel.Name stands for in Dial; empty at the server itself.
	Server string
	// Key is the pre-auth key to enrol with. It is not used where the state is still good.
	Key string
	// NewKey gives another pre-auth key when the node must be enrolled again; nil uses Key.
	NewKey func(ctx context.Context) (string, error)
	// Tags that the node asks for; empty where the key brings them.
	Tags      []string
	Ephemeral bool // the tailnet forgets the node soon after it is gone
	Store     Store
	Dir       string // for files that hold no secret; empty is a temporary folder
	Log       *slog.Logger
}

// Node is one end of the tunnel. It is safe for concurrent use.
type Node struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu        sync.Mutex
	server    *tsnet.Server
	running   bool
	fatal     error         // no further attempt is made
	problem   error         // what was last heard
	changed   chan struct{} // closed and replaced when something above changes
	listeners map[uint16]*relisten
	tempDir   string
}

var _ tunnel.Tunnel = (*Node)(nil)

// Join makes a node. It comes up by itself: see WaitReady.
func Join(o Options) (*Node, error) {
	if err := checkControl(o.Control); err != nil {
		return nil, err
	}
	if o.Hostname == "" {
		return nil, errors.New("cannot join a tailnet without a host name")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Store == nil {
		o.Store = &Memory{}
	}
	n := &Node{o: o, done: make(chan struct{}), changed: make(chan struct{}), listeners: make(map[uint16]*relisten)}
	if n.o.Dir == "" {
		dir, err := os.MkdirTemp("", "zoomies-tailnet-")
		if err != nil {
			return nil, fmt.Errorf("cannot join the tailnet: %w", err)
		}
		n.o.Dir, n.tempDir = dir, dir
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	k, err := newKeeper(o.Store)
	if err == nil {
		err = n.start(k, o.Key)
	}
	if err != nil {
		n.cancel()
		_ = os.RemoveAll(n.tempDir)
		return nil, err
	}
	go n.run(k)
	return n, nil
}

// WaitReady waits until the node is up, or can never be.
func (n *Node) WaitReady(ctx context.Context) error {
	_, err := n.up(ctx)
	return err
}

// start brings up a network stack.
func (n *Node) start(k *keeper, key string) error {
	s := &tsnet.Server{
		Dir: n.o.Dir, Hostname: n.o.Hostname, ControlURL: n.o.Control, AuthKey: key,
		Ephemeral: n.o.Ephemeral, Store: k, AdvertiseTags: n.o.Tags,
		Logf: quiet.Logf(n.o.Log), UserLogf: quiet.Logf(n.o.Log),
	}
	if err := s.Start(); err != nil {
		return fmt.Errorf("cannot join the tailnet: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server = s
	for _, l := range n.listeners {
		if err := l.open(s); err != nil {
			return err
		}
	}
	return nil
}

// run watches the node, and enrols it again once.
func (n *Node) run(k *keeper) {
	defer close(n.done)
	again := false
	for n.ctx.Err() == nil {
		n.mu.Lock()
		s := n.server
		n.mu.Unlock()
		wasUp, cause := n.watch(s)
		if n.ctx.Err() != nil {
			return
		}
		if wasUp {
			again = false // it had worked since: this is a new loss
		}
		if again {
			n.set(false, fmt.Errorf("%w: %w", tunnel.ErrEnrol, cause), true)
			n.o.Log.Error("the tailnet does not take this node back: give it a new pre-auth key", "err", cause)
			return
		}
		again = true
		n.o.Log.Warn("the tailnet no longer knows this node; enrolling it again", "err", cause)
		n.set(false, cause, false)
		key := n.o.Key
		if n.o.NewKey != nil {
			fresh, err := n.o.NewKey(n.ctx)
			if err != nil {
				n.set(false, fmt.Errorf("%w: cannot get another key: %w", tunnel.ErrEnrol, err), true)
				return
			}
			key = fresh
		}
		if key == "" {
			n.set(false, fmt.Errorf("%w: there is no key to enrol with: %w", tunnel.ErrEnrol, cause), true)
			return
		}
		k.end()
		_ = s.Close()
		err := n.o.Store.Put(nil)
		if err == nil {
			if k, err = newKeeper(n.o.Store); err == nil {
				err = n.start(k, key)
			}
		}
		if err != nil {
			n.set(false, fmt.Errorf("%w: %w", tunnel.ErrEnrol, err), true)
			return
		}
	}
}

// watch returns when the node is dead: its key has expired, or enrolling is refused or asks
// for a person. A control server that cannot be reached is none of these.
func (n *Node) watch(s *tsnet.Server) (wasUp bool, cause error) {
	lc, err := s.LocalClient()
	if err != nil {
		return false, err
	}
	w, err := lc.WatchIPNBus(n.ctx, ipn.NotifyInitialState)
	if err != nil {
		return false, err
	}
	defer func() { _ = w.Close() }()
	for {
		note, err := w.Next()
		if err != nil {
			return wasUp, err
		}
		switch {
		case note.ErrMessage != nil:
			return wasUp, errors.New(strings.TrimSpace(*note.ErrMessage))
		case note.BrowseToURL != nil && *note.BrowseToURL != "":
			return wasUp, errors.New("the control server asks for a person to sign the node in")
		}
		if note.State == nil {
			continue
		}
		switch *note.State {
		case ipn.Running:
			wasUp = true
			n.set(true, nil, false)
		case ipn.NeedsLogin:
			if wasUp {
				return wasUp, errors.New("the node's key has expired, or the node was removed")
			}
		case ipn.NeedsMachineAuth:
			n.set(false, errors.New("the node waits for an administrator of the tailnet to approve it"), false)
		default:
			n.set(false, fmt.Errorf("the tailnet's state is %v", *note.State), false)
		}
	}
}

func (n *Node) set(running bool, problem error, fatal bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running, n.problem = running, problem
	if fatal {
		n.fatal = problem
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// up waits for a running node.
func (n *Node) up(ctx context.Context) (*tsnet.Server, error) {
	for {
		n.mu.Lock()
		s, running, fatal, problem, changed := n.server, n.running, n.fatal, n.problem, n.changed
		n.mu.Unlock()
		switch {
		case n.ctx.Err() != nil:
			return nil, net.ErrClosed
		case fatal != nil:
			return nil, fatal
		case running:
			return s, nil
		}
		select {
		case <-changed:
		case <-n.ctx.Done():
		case <-ctx.Done():
			if problem == nil {
				problem = ctx.Err()
			}
			return nil, fmt.Errorf("%w: %w", tunnel.ErrDown, problem)
		}
	}
}

// Dial implements tunnel.Tunnel. tunnel.Name is the server; other names are the tailnet's.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot dial %q through the tunnel: it must be host:port", address)
	}
	s, err := n.up(ctx)
	if err != nil {
		return nil, err
	}
	if host == tunnel.Name && n.o.Server != "" {
		host = n.o.Server
	}
	if net.ParseIP(host) == nil {
		if host, err = n.find(ctx, s, host); err != nil {
			return nil, err
		}
	}
	return s.Dial(ctx, network, net.JoinHostPort(host, port))
}

// find is a node's address by the name that the control server gave it, which is unique, and
// not by the one it calls itself. It waits for the node to be seen.
func (n *Node) find(ctx context.Context, s *tsnet.Server, name string) (string, error) {
	lc, err := s.LocalClient()
	if err != nil {
		return "", err
	}
	for {
		st, err := lc.Status(ctx)
		if err != nil {
			return "", fmt.Errorf("%w: %w", tunnel.ErrDown, err)
		}
		for _, p := range st.Peer {
			if label(p.DNSName) == name && len(p.TailscaleIPs) > 0 {
				return p.TailscaleIPs[0].String(), nil
			}
		}
		wait := time.NewTimer(100 * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return "", fmt.Errorf("%w: there is no node %s in the tailnet, or this one may not see it", tunnel.ErrDown, name)
		}
	}
}

func label(dnsName string) string {
	first, _, _ := strings.Cut(dnsName, ".")
	return first
}

// WhoIs implements tunnel.Tunnel.
func (n *Node) WhoIs(ctx context.Context, remote net.Addr) (tunnel.Peer, error) {
	s, err := n.up(ctx)
	if err != nil {
		return tunnel.Peer{}, err
	}
	lc, err := s.LocalClient()
	if err != nil {
		return tunnel.Peer{}, err
	}
	who, err := lc.WhoIs(ctx, remote.String())
	if errors.Is(err, local.ErrPeerNotFound) {
		return tunnel.Peer{}, tunnel.ErrStranger
	}
	if err != nil {
		return tunnel.Peer{}, fmt.Errorf("cannot find out who is there: %w", err)
	}
	return tunnel.Peer{Name: label(who.Node.Name), Key: who.Node.Key.String(), Tags: who.Node.Tags}, nil
}

// Status implements tunnel.Tunnel.
func (n *Node) Status(ctx context.Context) (tunnel.Status, error) {
	n.mu.Lock()
	s := n.server
	st := tunnel.Status{Transport: "tailnet", Ready: n.running && n.fatal == nil, Problem: n.problem}
	n.mu.Unlock()
	if n.ctx.Err() != nil {
		return tunnel.Status{Transport: "tailnet", Problem: net.ErrClosed}, nil //nolint:nilerr // it is closed, and that is its status
	}
	if !st.Ready {
		return st, nil
	}
	lc, err := s.LocalClient()
	if err != nil {
		return st, err
	}
	full, err := lc.Status(ctx)
	if err != nil {
		return st, fmt.Errorf("cannot ask the node for its status: %w", err)
	}
	if full.Self != nil {
		st.Address = Address{Node: label(full.Self.DNSName), Control: n.o.Control}.String()
	}
	for _, p := range full.Peer {
		st.Peers = append(st.Peers, peerStatus(p))
	}
	return st, nil
}

func peerStatus(p *ipnstate.PeerStatus) tunnel.PeerStatus {
	out := tunnel.PeerStatus{Peer: tunnel.Peer{Name: label(p.DNSName), Key: p.PublicKey.String()}, Connected: p.Online, LastSeen: p.LastSeen}
	if p.Tags != nil {
		out.Tags = p.Tags.AsSlice()
	}
	return out
}

// Listen implements tunnel.Tunnel. The listener outlives an enrolment.
func (n *Node) Listen(port uint16) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil, net.ErrClosed
	}
	if n.listeners[port] != nil {
		return nil, fmt.Errorf("cannot listen on port %d of the tunnel: something does already", port)
	}
	l := newRelisten(port, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listeners, port)
	})
	if err := l.open(n.server); err != nil {
		return nil, err
	}
	n.listeners[port] = l
	return l, nil
}

// Close implements tunnel.Tunnel.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.ctx.Err() != nil {
		n.mu.Unlock()
		<-n.done
		return nil //nolint:nilerr // it is closed already
	}
	n.cancel()
	var open []*relisten
	for _, l := range n.listeners {
		open = append(open, l)
	}
	n.mu.Unlock()
	for _, l := range open {
		_ = l.Close()
	}
	<-n.done
	err := n.server.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // a node whose enrolment failed is closed already
	}
	return errors.Join(err, os.RemoveAll(n.tempDir))
}

func portAddr(port uint16) string { return ":" + strconv.Itoa(int(port)) }
