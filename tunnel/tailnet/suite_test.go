package tailnet

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"tailscale.com/net/netns"
	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/logger"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

const testKey = "tskey-test"

// tailnet is tailscale's own test control server and a relay of ours.
type tailnet struct {
	*testcontrol.Server
	url   string
	store *Memory // the server's
}

func newTailnet(t *testing.T) *tailnet {
	t.Helper()
	netns.SetEnabled(false)
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(state, everybody, discard)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.Serve(l) }()
	t.Cleanup(func() { r.Close() })
	region, err := state.Region(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &testcontrol.Server{
		DERPMap:   &tailcfg.DERPMap{OmitDefaultRegions: true, Regions: map[int]*tailcfg.DERPRegion{relay.RegionID: region}},
		DNSConfig: &tailcfg.DNSConfig{Proxied: true}, MagicDNSDomain: "tail-test.ts.net", Logf: logger.Discard, AllOnline: true,
	}
	c.HTTPTestServer = httptest.NewUnstartedServer(c)
	c.HTTPTestServer.Start()
	t.Cleanup(c.HTTPTestServer.Close)
	return &tailnet{Server: c, url: c.HTTPTestServer.URL, store: &Memory{}}
}

func (n *tailnet) join(t *testing.T, o Options) *Node {
	t.Helper()
	o.Control = n.url
	node, err := Join(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return node
}

func ready(t *testing.T, n *Node) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConformance(t *testing.T) {
	tunneltest.Run(t, func(t *testing.T) tunneltest.Rig {
		n := newTailnet(t)
		return tunneltest.Rig{
			Server: func(t *testing.T) tunnel.Tunnel {
				return ready(t, n.join(t, Options{Hostname: "zoomies", Key: testKey, Store: n.store}))
			},
			Client: func(t *testing.T, name string) tunnel.Tunnel {
				return ready(t, n.join(t, Options{Hostname: name, Server: "zoomies", Key: testKey, Ephemeral: true}))
			},
			Stranger: func(t *testing.T) (tunnel.Tunnel, error) {
				n.RequireAuthKey = testKey
				return n.join(t, Options{Hostname: "stranger", Server: "zoomies", Key: "tskey-wrong"}), nil
			},
		}
	})
}

// B19: a node that its tailnet no longer wants enrols itself again once, and then says so.
func TestExpiredKeyEnrolsAgain(t *testing.T) {
	n := newTailnet(t)
	var mu sync.Mutex
	asked := 0
	node := ready(t, n.join(t, Options{Hostname: "host-1", Key: testKey, NewKey: func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		n.SetExpireAllNodes(false)
		return testKey, nil
	}}))
	n.SetExpireAllNodes(true)
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	waitFor(ctx, t, node, func(st tunnel.Status) bool { mu.Lock(); defer mu.Unlock(); return asked == 1 && st.Ready })
}

func TestRefusedTwiceIsNamed(t *testing.T) {
	n := newTailnet(t)
	n.RequireAuthKey = testKey
	asked := 0
	node := n.join(t, Options{Hostname: "host-1", Key: "tskey-spent", NewKey: func(context.Context) (string, error) {
		asked++
		return "tskey-spent-too", nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	if _, err := node.Dial(ctx, "tcp", "zoomies:80"); !errors.Is(err, tunnel.ErrEnrol) {
		t.Fatalf("got %v, want ErrEnrol", err)
	}
	if asked != 1 {
		t.Errorf("asked for %d keys, want 1", asked)
	}
	if st, err := node.Status(ctx); err != nil || !errors.Is(st.Problem, tunnel.ErrEnrol) || st.Ready {
		t.Errorf("the status is %+v, %v", st, err)
	}
}

func TestStateThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	s := &Memory{}
	_ = s.Put([]byte("rubbish"))
	if _, err := Join(Options{Control: "http://127.0.0.1:1", Hostname: "x", Store: s}); err == nil {
		t.Error("joined with a state that is rubbish")
	}
}

func waitFor(ctx context.Context, t *testing.T, n *Node, ok func(tunnel.Status) bool) {
	t.Helper()
	for {
		n.mu.Lock()
		changed := n.changed
		n.mu.Unlock()
		st, err := n.Status(ctx)
		if err == nil && ok(st) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("it did not come to that; the status is %+v, %v", st, err)
		}
	}
}
