// Package gateway holds the whole of a private connection together: the controller's API makes a setup, the installer connects a
// throw-away node with it, and the controller then reaches the node's API through the tunnel, TLS and all.
package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	"github.com/zoomies-fleet/zoomies/gateway"
	"github.com/zoomies-fleet/zoomies/gateway/install"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
)

// fleet is a fleet in which nothing happens.
type fleet struct {
	api.Fleet
	bus events.Bus
}

func (*fleet) Look()                        {}
func (f *fleet) Events() *events.Bus        { return &f.bus }
func (*fleet) Problems() []problems.Problem { return nil }

// tunnel is the controller's side of it.
type tunnel struct {
	server *tailcat.Server
	me     tailcat.Identity
}

func (t *tunnel) Terms(context.Context) (string, string, error) {
	return t.server.Addresses()[0], t.me.Public(), nil
}

func (t *tunnel) Admit(_ context.Context, _, address string) error {
	public, err := tailcat.PublicOf(address)
	if err != nil {
		return err
	}
	return t.server.AdmitToRelay(public)
}

func newTunnel(t *testing.T) *tunnel {
	t.Helper()
	state, err := relay.NewState(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tailcat.Serve(tailcat.Options{Entrances: []tailcat.Entrance{{Identity: tailcat.NewIdentity(), Relay: state, Listener: ln}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	tun := &tunnel{s, tailcat.NewIdentity()}
	if err := errors.Join(s.WaitReady(t.Context()), s.AdmitToRelay(tun.me.Public())); err != nil {
		t.Fatal(err)
	}
	return tun
}

// node is a throw-away Proxmox node whose service manager starts a real gateway.
type node struct {
	t      *testing.T
	root   string
	target string // of the node's API
	ctx    context.Context
	wg     sync.WaitGroup
	token  string
}

func (n *node) command(_ context.Context, argv []string) ([]byte, error) {
	switch line := strings.Join(argv, " "); {
	case strings.HasPrefix(line, "pvesh get /version"):
		return []byte(`{"version":"9.2.11"}`), nil
	case strings.HasPrefix(line, "pvesh get /storage"):
		return []byte(`[{"storage":"local","content":"iso,import,images"}]`), nil
	case strings.HasPrefix(line, "pvesh get /nodes/"):
		return []byte(`[{"iface":"vmbr0"}]`), nil
	case strings.HasPrefix(line, "pveum user token add"):
		n.token = "11111111-2222-4333-8444-555555555555"
		return []byte(`{"value":"` + n.token + `"}`), nil
	case strings.Contains(line, " list"):
		return []byte("[]"), nil
	case line == "systemctl restart "+install.UnitName:
		n.start()
	}
	return nil, nil
}

var setting = regexp.MustCompile(`Environment="([A-Z_]+)=([^"]*)"`)

// start does what the unit says.
func (n *node) start() {
	unit, err := os.ReadFile(filepath.Join(n.root, install.UnitFile))
	if err != nil {
		n.t.Error(err)
		return
	}
	env := map[string]string{}
	for _, m := range setting.FindAllStringSubmatch(string(unit), -1) {
		env[m[1]] = strings.ReplaceAll(m[2], "%%", "%")
	}
	dir := filepath.Join(n.root, install.StateDir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		n.t.Error(err)
	}
	n.wg.Go(func() {
		err := gateway.Run(n.ctx, gateway.Options{
			StateDir: dir, Target: n.target, Tunnel: &gateway.Tailcat{Relay: env[install.RelayVariable], Admit: env[install.AdmitVariable]},
		})
		if err != nil {
			n.t.Error(err)
		}
	})
}

func newNode(t *testing.T, pve *httptest.Server) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, root: t.TempDir(), target: pve.Listener.Addr().String(), ctx: ctx}
	t.Cleanup(func() { cancel(); n.wg.Wait() })
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pve.Certificate().Raw})
	dir := filepath.Join(n.root, "/etc/pve/nodes/pve1")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "pve-ssl.pem"), cert, 0o600), os.Symlink("nodes/pve1", filepath.Join(n.root, "/etc/pve/local"))); err != nil {
		t.Fatal(err)
	}
	return n
}

// flags reads the controller's command as a shell and the installer would.
func flags(t *testing.T, command string) (a install.Answers, pin string) {
	t.Helper()
	words := strings.Fields(command)
	a.Capability = strings.TrimPrefix(words[0], install.CapabilityVariable+"=")
	if strings.Join(words[1:4], " ") != "zoomies gateway install" {
		t.Fatal(command)
	}
	for i := 4; i+1 < len(words); i += 2 {
		value := strings.Trim(words[i+1], "'")
		switch words[i] {
		case "--name":
			a.Name = value
		case "--controller":
			a.Controller = value
		case "--ca-pin":
			pin = value
		case "--pool":
			a.Pool = value
		case "--storage":
			a.Storages = append(a.Storages, value)
		case "--bridge":
			a.Bridge = value
		case "--relay":
			a.Relay = value
		case "--admit":
			a.Admit = value
		default:
			t.Fatalf("unknown flag %s", words[i])
		}
	}
	return a, pin
}

func TestFromTheCommandToTheAPI(t *testing.T) {
	t.Parallel()
	tun, st := newTunnel(t), storetest.Open(t)
	log := slog.New(slog.DiscardHandler)
	front := httptest.NewUnstartedServer(nil)
	front.StartTLS()
	t.Cleanup(front.Close)
	sum := sha256.Sum256(front.Certificate().RawSubjectPublicKeyInfo)
	server := api.New(api.Options{
		Store: st, Fleet: &fleet{}, SignIn: signin.New(signin.Options{Store: st, Logger: log}), Logger: log, Gateways: tun,
		AgentURL: front.URL, CAPin: "sha256:" + hex.EncodeToString(sum[:]),
	})
	t.Cleanup(server.Close)
	front.Config.Handler = server.Handler()

	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/provider-setups", strings.NewReader(`{"name":"home"}`))
	req.Header.Set("Content-Type", "application/json")
	server.LocalHandler().ServeHTTP(rec, req)
	var made api.CreatedProviderSetup
	if err := json.Unmarshal(rec.Body.Bytes(), &made); err != nil || rec.Code != http.StatusCreated {
		t.Fatalf("%d: %s", rec.Code, rec.Body)
	}

	pve := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Authorization")) //nolint:gosec // a test reads it, and no browser
	}))
	t.Cleanup(pve.Close)
	n := newNode(t, pve)
	answers, pin := flags(t, made.Command)
	if err := answers.Check(); err != nil {
		t.Fatal(err)
	}
	to, err := client.New(client.Options{Server: answers.Controller, PinSHA256: strings.TrimPrefix(pin, "sha256:")})
	if err != nil {
		t.Fatal(err)
	}
	host := &install.Host{Root: n.root, Out: io.Discard, Command: n.command, Self: os.Args[0], Post: func(ctx context.Context, capability string, c install.Connection) error {
		_, err := to.Call(ctx, http.MethodPost, "/api/v1/provider-setups/completion", nil, map[string]any{"token": capability, "connection": c})
		return err
	}}
	facts, err := host.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := install.Install(answers, facts, install.Journal{})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Do(t.Context(), answers, facts, plan, install.Journal{}); err != nil {
		t.Fatal(err)
	}

	kept, err := st.ProviderSetupConnection(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	var c api.ProviderConnection
	if err := json.Unmarshal(kept.Reveal(), &c); err != nil || c.TokenSecret != n.token || c.TokenID != "zoomies@pve!home" {
		t.Fatalf("kept %+v, %v", c, err)
	}
	reach(t, tun, c)
	if setups, err := st.ProviderSetups(t.Context()); err != nil || len(setups) != 1 || setups[0].CompletedAt.IsZero() {
		t.Errorf("%+v, %v", setups, err)
	}
}

// reach asks the node's API as the controller does: through the tunnel, trusting what was posted and nothing else.
func reach(t *testing.T, tun *tunnel, c api.ProviderConnection) {
	t.Helper()
	through, err := tailcat.Connect(tailcat.ClientOptions{Address: c.Gateway, Identity: tun.me})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = through.Close() })
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.CA)) {
		t.Fatal("no authority was posted")
	}
	hc := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return through.Dial(ctx, network, net.JoinHostPort("gateway", "8006"))
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Endpoint+"/api2/json/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+c.TokenID+"="+c.TokenSecret)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "/api2/json/version PVEAPIToken="+c.TokenID+"="+c.TokenSecret {
		t.Errorf("%q, %v", body, err)
	}
}
