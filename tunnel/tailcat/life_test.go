package tailcat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	upstream "github.com/tailscale/tailcat"
	"tailscale.com/tailcfg"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

// echoes answers on port 80 until the test ends.
func echoes(t testing.TB, s *Server) {
	t.Helper()
	l, err := s.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func dial(t testing.TB, c *Client) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	conn, err := c.Dial(ctx, "tcp", "controller:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ping(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(tunneltest.Patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestRevokeEndsOneHostAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	echoes(t, s)
	one, two := w.join(t, "one"), w.join(t, "two")
	connOne, connTwo := dial(t, one), dial(t, two)
	if err := errors.Join(ping(connOne), ping(connTwo)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Hosts()); !strings.Contains(got, "{one ") || !strings.Contains(got, "{two ") {
		t.Errorf("the hosts are %s", got)
	}
	if !s.relays[w.relay.Pin()].Connected(one.o.Identity.private.Public()) {
		t.Error("the host is not at the relay")
	}
	if was, err := s.Revoke(one.o.Identity.Public()); err != nil || !was {
		t.Fatalf("revoked %v, %v", was, err)
	}
	if err := ping(connOne); err == nil {
		t.Error("a revoked host's connection goes on")
	}
	if err := ping(connTwo); err != nil {
		t.Errorf("another host's connection has ended too: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if c, err := one.Dial(ctx, "tcp", "controller:80"); err == nil {
		if err := ping(c); err == nil {
			t.Error("a revoked host came in again")
		}
	}
	if len(s.Hosts()) != 1 {
		t.Errorf("the hosts are %v", s.Hosts())
	}
	if was, err := s.Revoke(one.o.Identity.Public()); err != nil || was {
		t.Errorf("revoked again: %v, %v", was, err)
	}
}

// A server that admits nobody must not be open to all, which is what the library makes of an
// empty list.
func TestNobodyIsAdmittedByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	echoes(t, w.serve(t))
	c := w.connect(t, NewIdentity())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Dial(ctx, "tcp", "controller:80"); !errors.Is(err, tunnel.ErrDown) {
		t.Errorf("got %v, want ErrDown", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	echoes(t, s)
	moves, stays := w.join(t, "moves"), w.join(t, "stays")
	before, other := dial(t, moves), dial(t, stays)
	old := s.Addresses()[0]

	// A new identity at a new relay: everything about the address is new.
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Open(Entrance{Identity: NewIdentity(), Relay: state, Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Addresses(); len(got) != 2 || got[0] != next || got[1] != old {
		t.Fatalf("the addresses are %v", got)
	}
	if err := moves.Update(next); err != nil {
		t.Fatal(err)
	}
	until(t, moves, func() bool { return moves.Address() == next })
	if err := errors.Join(ping(before), ping(other), ping(dial(t, moves)), ping(dial(t, stays))); err != nil {
		t.Fatalf("in the overlap: %v", err)
	}
	if who, err := s.WhoIs(t.Context(), dialAccepted(t, s, moves)); err != nil || who.Name != "moves" {
		t.Errorf("who-is %v, %v", who, err)
	}
	if err := s.Shut(old); err != nil {
		t.Fatal(err)
	}
	if err := ping(dial(t, moves)); err != nil {
		t.Errorf("after the overlap: %v", err)
	}
	// Who missed the overlap is told the new address by other means, and needs no restart.
	if err := stays.Update(next); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := ping(dial(t, stays)); err != nil {
		t.Errorf("who missed the overlap: %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("back only after %v", took)
	}
	if err := s.Shut(next); err == nil {
		t.Error("shut the only entrance")
	}
}

func dialAccepted(t *testing.T, s *Server, c *Client) net.Addr {
	t.Helper()
	l, err := s.Listen(81)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	conn, err := c.Dial(ctx, "tcp", "controller:81")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	return got.RemoteAddr()
}

// A rotation of the identity alone shares the relay, and ends with the last of both.
func TestEntrancesShareARelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	echoes(t, s)
	c := w.join(t, "one")
	old := s.Addresses()[0]
	next, err := s.Open(Entrance{Identity: NewIdentity(), Relay: w.relay})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Shut(old); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(next); err != nil {
		t.Fatal(err)
	}
	if err := ping(dial(t, c)); err != nil {
		t.Error(err)
	}
	if len(s.relays) != 1 {
		t.Errorf("%d relays run", len(s.relays))
	}
}

// B17: the relay is out of reach for ten minutes, and the host is back within one. The host's
// pauses pass in no time, and are counted.
func TestBackAfterTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.serve(t)
	echoes(t, s)
	identity := NewIdentity()
	w.hosts = []Host{{Name: "one", Public: identity.Public()}}
	if err := s.Admit(w.hosts[0]); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var slept time.Duration
	var longest time.Duration
	tenMinutes := make(chan struct{})
	resume := make(chan struct{})
	c, err := Connect(ClientOptions{Address: s.Addresses()[0], Identity: identity, wait: func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		slept += d + attemptTimeout // an attempt that fails takes that long, in real life too
		longest = max(longest, d)
		past := slept >= 10*time.Minute
		mu.Unlock()
		if !past {
			return ctx.Err()
		}
		select {
		case <-tenMinutes:
		default:
			close(tenMinutes)
		}
		select {
		case <-resume:
			return sleep(ctx, d)
		case <-ctx.Done():
			return ctx.Err()
		}
	}, attempt: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.setAttempt(attemptTimeout)
	if err := ping(dial(t, c)); err != nil {
		t.Fatal(err)
	}
	c.setAttempt(100 * time.Millisecond)
	s.Close()
	c.askNow()
	select {
	case <-tenMinutes:
	case <-time.After(tunneltest.Patience):
		t.Fatal("the host does not try again")
	}
	if st, _ := c.Status(t.Context()); st.Ready || st.Problem == nil {
		t.Errorf("the status is %+v", st)
	}
	if longest > RetryMax*3/2 { // backoff adds up to a half
		t.Errorf("it waits for up to %v", longest)
	}
	echoes(t, w.serve(t))
	c.setAttempt(attemptTimeout)
	start := time.Now()
	close(resume)
	if err := ping(dial(t, c)); err != nil {
		t.Fatal(err)
	}
	back := time.Since(start)
	t.Logf("back after %v", back)
	if back > time.Minute {
		t.Errorf("back only after %v", back)
	}
}

// A gateway: a server that runs no relay, and is found at the controller's.
func TestVia(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	controller := w.serve(t)
	gateway, host := NewIdentity(), NewIdentity()
	g, err := Serve(Options{
		Entrances: []Entrance{{Identity: gateway, Via: controller.Addresses()[0]}},
		Hosts:     []Host{{Name: "controller", Public: host.Public()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if err := controller.AdmitToRelay(gateway.Public()); err != nil {
		t.Fatal(err)
	}
	if err := controller.AdmitToRelay(host.Public()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	echoes(t, g)
	c, err := Connect(ClientOptions{Address: g.Addresses()[0], Identity: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := ping(dial(t, c)); err != nil {
		t.Error(err)
	}
	// A guest of the relay reaches the gateway, not the controller.
	if controller.members.has(host.private.Public()) {
		t.Error("a guest of the relay is a host of the controller")
	}
}

func TestAddressesThatWouldDialElsewhere(t *testing.T) {
	t.Parallel()
	i := NewIdentity()
	state, err := relay.NewState(time.Now(), "relay.example.org")
	if err != nil {
		t.Fatal(err)
	}
	good, err := state.Region("192.0.2.1:443", "relay.example.org:443", "[2001:db8::1]:443")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckAddress(addressOf(i, good)); err != nil {
		t.Errorf("a good address: %v", err)
	}
	if _, err := state.Region("other.example.org:443"); err == nil {
		t.Error("took a name that the certificate does not cover")
	}
	vendor := upstream.ConnInfo{ServerPublic: upstream.NodePublic{NodePublic: i.private.Public()}, ServerDiscoPublic: upstream.DiscoPublicForNode(i.private), RegionID: 7}
	change := func(f func(*tailcfg.DERPNode)) string {
		r := good.Clone()
		f(r.Nodes[1])
		return addressOf(i, r)
	}
	for name, bad := range map[string]string{
		"the vendor's region": string(vendor.ConnBlob()),
		"no pin":              change(func(n *tailcfg.DERPNode) { n.CertName = "" }),
		"no check":            change(func(n *tailcfg.DERPNode) { n.InsecureForTests = true }),
		"STUN":                change(func(n *tailcfg.DERPNode) { n.STUNPort = 0 }),
		"rubbish":             "tcxyz",
		"nothing":             "",
	} {
		if err := CheckAddress(bad); !errors.Is(err, tunnel.ErrAddress) {
			t.Errorf("%s: %v, want ErrAddress", name, err)
		}
	}
}

func TestIdentityKeepsItsSecret(t *testing.T) {
	t.Parallel()
	i := NewIdentity()
	if s := fmt.Sprintf("%v %+v %#v %s", i, i, i, i); strings.Contains(s, i.Secret()) || strings.Contains(s, "privkey") {
		t.Error("an identity prints its private key")
	}
	back, err := ParseIdentity(i.Secret())
	if err != nil || back.Public() != i.Public() {
		t.Errorf("read back %v, %v", back, err)
	}
	secret := "privkey:" + strings.Repeat("zz", 32)
	if _, err := ParseIdentity(secret); err == nil || strings.Contains(err.Error(), "zz") {
		t.Errorf("a wrong key: %v", err)
	}
}

func FuzzAddress(f *testing.F) {
	i := NewIdentity()
	state, err := relay.NewState(time.Now())
	if err != nil {
		f.Fatal(err)
	}
	r, err := state.Region("127.0.0.1:1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(addressOf(i, r))
	f.Add("tc")
	f.Fuzz(func(t *testing.T, s string) { _ = CheckAddress(s) })
}

func until(t *testing.T, c *Client, ok func() bool) {
	t.Helper()
	limit := time.After(tunneltest.Patience)
	for {
		c.mu.Lock()
		changed := c.lostAt
		c.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatal("it did not come to that")
		}
	}
}

func (c *Client) setAttempt(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.attempt = d
}
