package tailcat

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel"
)

// Host is one admitted client.
type Host struct {
	Name   string
	Public string // its public key
}

// members are the admitted clients and what they have open. The transport has no way to take a
// key back, so this table decides, on every connection.
type members struct {
	mu     sync.Mutex
	byAddr map[netip.Addr]*member
	now    func() time.Time
}

type member struct {
	name   string
	key    key.NodePublic
	conns  map[*conn]struct{}
	hearts int
	seen   time.Time
}

// addrOf is the address that a key has inside the tunnel: tailcat's own rule. WireGuard lets a
// peer send from no other.
func addrOf(k key.NodePublic) netip.Addr {
	a := [16]byte{0xfd, 0x7a, 0x11, 0x5c, 0xa1, 0xe0}
	raw := k.Raw32() //nolint:staticcheck // tailcat makes the address of it, and says it nowhere else
	copy(a[6:], raw[:10])
	return netip.AddrFrom16(a)
}

// admit is safe to repeat; a new name replaces the old one.
func (m *members) admit(name string, k key.NodePublic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byAddr[addrOf(k)]; known != nil {
		known.name = name
		return
	}
	m.byAddr[addrOf(k)] = &member{name: name, key: k, conns: make(map[*conn]struct{})}
}

// revoke forgets a key and ends what it has open.
func (m *members) revoke(k key.NodePublic) bool {
	m.mu.Lock()
	gone := m.byAddr[addrOf(k)]
	if gone == nil || gone.key != k {
		m.mu.Unlock()
		return false
	}
	delete(m.byAddr, addrOf(k))
	open := make([]*conn, 0, len(gone.conns))
	for c := range gone.conns {
		open = append(open, c)
	}
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	return true
}

func (m *members) has(k key.NodePublic) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byAddr[addrOf(k)]
	return known != nil && known.key == k
}

func (m *members) keys() []key.NodePublic {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]key.NodePublic, 0, len(m.byAddr))
	for _, h := range m.byAddr {
		keys = append(keys, h.key)
	}
	return keys
}

func (m *members) whoIs(remote net.Addr) (tunnel.Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byAddr[ipOf(remote)]
	if known == nil {
		return tunnel.Peer{}, tunnel.ErrStranger
	}
	return tunnel.Peer{Name: known.name, Key: known.key.String()}, nil
}

// enter counts a connection in. It is nil where nobody by that address is admitted.
func (m *members) enter(raw net.Conn) *conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byAddr[ipOf(raw.RemoteAddr())]
	if known == nil {
		return nil
	}
	c := &conn{Conn: raw}
	c.onClose = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(known.conns, c)
	}
	known.conns[c] = struct{}{}
	known.seen = m.now()
	return c
}

// beat notes that a client was heard, and how many connections it proves itself with.
func (m *members) beat(remote net.Addr, hearts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byAddr[ipOf(remote)]; known != nil {
		known.hearts += hearts
		known.seen = m.now()
	}
}

func (m *members) status() []tunnel.PeerStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]tunnel.PeerStatus, 0, len(m.byAddr))
	for _, h := range m.byAddr {
		all = append(all, tunnel.PeerStatus{Peer: tunnel.Peer{Name: h.name, Key: h.key.String()}, Connected: h.hearts > 0, LastSeen: h.seen})
	}
	slices.SortFunc(all, func(a, b tunnel.PeerStatus) int {
		return strings.Compare(a.Name+"\x00"+a.Key, b.Name+"\x00"+b.Key)
	})
	return all
}

func (m *members) closeAll() {
	m.mu.Lock()
	var open []*conn
	for _, h := range m.byAddr {
		for c := range h.conns {
			open = append(open, c)
		}
	}
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

func ipOf(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// conn runs onClose once. What is half closed stays open for the other half.
type conn struct {
	net.Conn
	once    sync.Once
	onClose func()
	err     error
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		c.onClose()
	})
	return c.err
}

// CloseWrite says that no more will be written.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
