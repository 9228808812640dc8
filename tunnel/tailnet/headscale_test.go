package tailnet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscale.com/net/netns"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

// headscale is a real one, which `make e2e-headscale` builds and names in ZOOMIES_HEADSCALE.
type headscale struct {
	t      *testing.T
	binary string
	config string
	keys   Headscale
	store  *Memory
}

func newHeadscale(t *testing.T) *headscale {
	t.Helper()
	binary := os.Getenv("ZOOMIES_HEADSCALE")
	if binary == "" {
		t.Skip("there is no Headscale to test against: make e2e-headscale builds one")
	}
	netns.SetEnabled(false)
	dir, err := os.MkdirTemp("", "hs") // its socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listen, metrics, grpc, derp, stun := freePort(t), freePort(t), freePort(t), freePort(t), freePort(t)
	// The relay is ours, with a pinned certificate: what Headscale itself has wants STUN.
	derpListener, err := net.Listen("tcp", derp)
	if err != nil {
		t.Fatal(err)
	}
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(state, everybody, discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.Serve(derpListener) }()
	t.Cleanup(func() { r.Close() })
	_, port, _ := net.SplitHostPort(derp)
	derpMap := fmt.Sprintf("regions:\n  1:\n    regionid: 1\n    regioncode: zoomies\n    regionname: zoomies\n    nodes:\n"+
		"      - {name: \"1\", regionid: 1, hostname: relay.zoomies.internal, ipv4: 127.0.0.1, ipv6: none, stunport: -1, derpport: %s, certname: %q}\n", port, state.Pin())
	config := strings.NewReplacer("DIR", dir, "LISTEN", listen, "METRICS", metrics, "GRPC", grpc, "STUN", stun).Replace(`server_url: http://LISTEN
listen_addr: LISTEN
metrics_listen_addr: METRICS
grpc_listen_addr: GRPC
noise: {private_key_path: DIR/noise.key}
prefixes: {v4: 100.64.0.0/10, v6: "fd7a:115c:a1e0::/48", allocation: sequential}
derp: {server: {enabled: false}, urls: [], paths: [DIR/derp.yaml], auto_update_enabled: false}
disable_check_updates: true
ephemeral_node_inactivity_timeout: 30m
database: {type: sqlite, sqlite: {path: DIR/db.sqlite, write_ahead_log: true}}
log: {level: info, format: text}
policy: {mode: file, path: DIR/policy.json}
dns: {magic_dns: true, base_domain: hs.test, override_local_dns: false, nameservers: {global: []}}
unix_socket: DIR/hs.sock
unix_socket_permission: "0770"
logtail: {enabled: false}
`)
	policy := `{"tagOwners":{"tag:zoomies":["zoomies@"]},"acls":[{"action":"accept","src":["*"],"dst":["*:*"]}]}`
	for name, text := range map[string]string{"config.yaml": config, "derp.yaml": derpMap, "policy.json": policy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := &headscale{t: t, binary: binary, config: filepath.Join(dir, "config.yaml"), store: &Memory{}}
	var said bytes.Buffer
	c := exec.Command(binary, "serve", "-c", h.config)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if t.Failed() {
			t.Logf("headscale said: %s", said.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	for h.try("users", "list") != nil { // each try takes a moment by itself
		if ctx.Err() != nil {
			t.Fatal("headscale does not come up")
		}
	}
	var user struct {
		ID int `json:"id"`
	}
	if err := json.Unmarshal([]byte(h.run("users", "create", "zoomies", "-o", "json")), &user); err != nil {
		t.Fatal(err)
	}
	h.keys = Headscale{URL: "http://" + listen, APIKey: strings.Trim(strings.TrimSpace(h.run("apikeys", "create")), `"`), User: fmt.Sprint(user.ID), Tags: []string{"tag:zoomies"}}
	return h
}

func (h *headscale) try(args ...string) error {
	return exec.Command(h.binary, append([]string{"-c", h.config}, args...)...).Run()
}

func (h *headscale) run(args ...string) string {
	h.t.Helper()
	c := exec.Command(h.binary, append([]string{"-c", h.config}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		h.t.Fatalf("headscale %v: %v: %s%s", args, err, out, stderr.String())
	}
	return string(out)
}

func (h *headscale) join(t *testing.T, o Options) *Node {
	t.Helper()
	o.Control = h.keys.URL
	if o.Key == "" {
		k, err := h.keys.Mint(t.Context(), o.Hostname)
		if err != nil {
			t.Fatal(err)
		}
		o.Key = k
	}
	n, err := Join(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func TestHeadscaleConformance(t *testing.T) {
	newHeadscale(t) // the reason to skip is printed once
	tunneltest.Run(t, func(t *testing.T) tunneltest.Rig {
		h := newHeadscale(t)
		return tunneltest.Rig{
			Server: func(t *testing.T) tunnel.Tunnel {
				return ready(t, h.join(t, Options{Hostname: "zoomies", Store: h.store}))
			},
			Client: func(t *testing.T, name string) tunnel.Tunnel {
				return ready(t, h.join(t, Options{Hostname: name, Server: "zoomies", Ephemeral: true}))
			},
			Stranger: func(t *testing.T) (tunnel.Tunnel, error) {
				return h.join(t, Options{Hostname: "stranger", Server: "zoomies", Key: strings.Repeat("0", 48)}), nil
			},
		}
	})
}

// B19: the node is deleted at its control server while it runs.
func TestHeadscaleDeletedNodeEnrolsAgain(t *testing.T) {
	h := newHeadscale(t)
	asked := make(chan struct{}, 10)
	store := &Memory{}
	n := ready(t, h.join(t, Options{Hostname: "host-1", Store: store, NewKey: func(ctx context.Context) (string, error) {
		asked <- struct{}{}
		return h.keys.Mint(ctx, "host-1")
	}}))
	if tags := selfTags(t, n); tags != "[tag:zoomies]" {
		t.Errorf("the node's tags are %s", tags)
	}
	if err := h.keys.Remove(t.Context(), "host-1"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(5 * time.Minute): // Headscale keeps the node's stream open and silent; the library gives one up after two minutes
		st, _ := n.Status(t.Context())
		t.Fatalf("a deleted node does not enrol again; its status is %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), tunneltest.Patience)
	defer cancel()
	waitFor(ctx, t, n, func(st tunnel.Status) bool { return st.Ready })
}

func selfTags(t *testing.T, n *Node) string {
	t.Helper()
	lc, err := n.server.LocalClient()
	if err != nil {
		t.Fatal(err)
	}
	st, err := lc.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Self.Tags == nil {
		return "none"
	}
	return fmt.Sprint(st.Self.Tags.AsSlice())
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
