package install

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/gateway"
)

// node is a throw-away Proxmox node: a root, and pveum, pvesh and systemctl that keep state and refuse as the real ones do.
type node struct {
	t    *testing.T
	root string
	host *Host
	log  bytes.Buffer

	version string
	pools   map[string][]string // members
	users   map[string]map[string]string
	roles   map[string]string
	grants  []Grant
	units   map[string]string // enabled, active

	ran     [][]string
	secrets []string
	posted  []Connection
	post    func(Connection) error
	admits  bool // the controller lets the gateway in once it was posted
}

var today = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newNode(t *testing.T) *node {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "zoomies-gateway-*") // every journal entry waits for the disk
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	n := &node{
		t: t, root: root, version: "9.2.11", pools: map[string][]string{}, admits: true,
		users: map[string]map[string]string{"root@pam": {}}, roles: map[string]string{"Administrator": "VM.Allocate,Sys.Audit", "PVEAuditor": "VM.Audit"},
		grants: []Grant{{"/", "PVEAuditor", "user", "root@pam"}}, units: map[string]string{"zoomies-agent.service": "active"},
	}
	n.host = &Host{Root: n.root, Out: &n.log, Command: n.run, Post: n.take, Now: func() time.Time { return today }, Pause: func(ctx context.Context, _ time.Duration) error { n.settle(); return ctx.Err() }}
	n.file("/media/zoomies", "program")
	n.host.Self = filepath.Join(n.root, "/media/zoomies")
	// An agent of the same machine.
	n.file("/usr/local/bin/zoomies", "the agent's")
	n.file("/etc/systemd/system/zoomies-agent.service", "[Service]")
	n.file("/var/lib/zoomies/agent.json", "{}")
	n.file("/etc/pve/nodes/pve1/config", "")
	if err := os.Symlink("nodes/pve1", filepath.Join(n.root, "/etc/pve/local")); err != nil {
		t.Fatal(err)
	}
	n.file(clusterCA, cluster().ca)
	n.file("/etc/pve/nodes/pve1/pve-ssl.pem", cluster().leaf)
	return n
}

func (n *node) file(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// certificate makes one; nil parent is self-signed.
func certificate(t *testing.T, tmpl, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	c, key, err := newCertificate(tmpl, parent, by)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

func newCertificate(tmpl, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	tmpl.SerialNumber, tmpl.NotBefore = big.NewInt(time.Now().UnixNano()), today.AddDate(0, -1, 0)
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = today.AddDate(1, 0, 0)
	}
	if parent == nil {
		parent, by = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by)
	if err != nil {
		return nil, nil, err
	}
	c, err := x509.ParseCertificate(der)
	return c, key, err
}

// cluster is the authority and the certificate of every node.
var cluster = sync.OnceValue(func() (c struct{ ca, leaf string }) {
	ca, key, err := newCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "Proxmox Virtual Environment"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		panic(err)
	}
	leaf, _, err := newCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "pve1.example.org"}, DNSNames: []string{"localhost", "pve1", "pve1.example.org"}}, ca, key)
	if err != nil {
		panic(err)
	}
	c.ca, c.leaf = pemOf(ca), pemOf(leaf)
	return c
})

func (n *node) answers() Answers {
	return Answers{
		Name: "home", Controller: "https://zoomies.example.org:8443", Pool: DefaultPool, Bridge: DefaultBridge,
		Relay: "tcAbC_-0", Admit: "nodekey:0123abcd", Capability: "zoogateway_secret",
	}
}

// install runs the installer as a command would.
func (n *node) install(a Answers) error {
	if err := a.Check(); err != nil {
		return err
	}
	j, _, err := n.host.Journal()
	if err != nil {
		return err
	}
	f, err := n.host.Look(context.Background())
	if err != nil {
		return err
	}
	p, err := Install(a, f, j)
	if err != nil {
		return err
	}
	return n.host.Do(context.Background(), a, f, p, j)
}

func (n *node) uninstall() error {
	j, there, err := n.host.Journal()
	if err != nil || !there {
		return errors.Join(err, errors.New("there is no journal"))
	}
	f, err := n.host.LookAccess(context.Background())
	if err != nil {
		return err
	}
	return n.host.Undo(context.Background(), Uninstall(f, j), j)
}

// take is the controller's completion route: a capability is good once, and again for the same connection.
func (n *node) take(_ context.Context, capability string, c Connection) error {
	if n.post != nil {
		if err := n.post(c); err != nil {
			return err
		}
	}
	if capability != "zoogateway_secret" {
		return errors.New("the setup's token is spent or expired")
	}
	if len(n.posted) > 0 && !sameConnection(n.posted[0], c) {
		return errors.New("the setup's token is spent or expired")
	}
	n.posted = append(n.posted, c)
	return nil
}

func sameConnection(a, b Connection) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// settle is what happens while the installer waits: the service says how it is.
func (n *node) settle() {
	if n.units[UnitName] != "enabled active" {
		return
	}
	st := gateway.Status{Status: gateway.Starting, Address: "tcGateway"}
	if len(n.posted) > 0 && n.admits {
		st.Status = gateway.Ready
	}
	raw, _ := json.Marshal(st)
	n.file(StateDir+"/"+gateway.StatusFile, string(raw))
	n.file(StateDir+"/identity", "private")
}

func fail(format string, args ...any) ([]byte, error) {
	return nil, fmt.Errorf("exit status 255: "+format, args...)
}

func shown(v any) ([]byte, error) { return json.Marshal(v) }

// run is pveum, pvesh and systemctl.
func (n *node) run(_ context.Context, argv []string) ([]byte, error) {
	n.ran = append(n.ran, argv)
	flags, words := map[string]string{}, []string{}
	for i := 1; i < len(argv); i++ {
		if name, ok := strings.CutPrefix(argv[i], "--"); ok && argv[0] != "systemctl" {
			flags[name] = argv[i+1]
			i++
			continue
		}
		words = append(words, argv[i])
	}
	switch argv[0] {
	case "pvesh":
		return n.pvesh(words)
	case "pveum":
		return n.pveum(words, flags)
	case "systemctl":
		return n.systemctl(argv[1:])
	}
	return nil, errors.New("no such command: " + argv[0])
}

func (n *node) pvesh(words []string) ([]byte, error) {
	switch strings.Join(words, " ") {
	case "get /version":
		return shown(map[string]string{"version": n.version, "release": "9.2"})
	case "get /storage":
		return shown([]map[string]any{
			{"storage": "local", "content": "iso,vztmpl,import"}, {"storage": "fast", "content": "images,rootdir"}, {"storage": "big", "content": "images", "nodes": "pve2"},
			{"storage": "off", "content": "images", "disable": 1},
		})
	case "get /nodes/pve1/network":
		return shown([]map[string]string{{"iface": "vmbr0", "type": "bridge"}})
	}
	return fail("No '%s' handler defined for '%s'", words[0], words[1])
}

func (n *node) systemctl(words []string) ([]byte, error) {
	switch strings.Join(words, " ") {
	case "daemon-reload":
	case "enable " + UnitName:
		n.units[UnitName] = strings.TrimSpace("enabled " + strings.TrimPrefix(n.units[UnitName], "enabled"))
	case "restart " + UnitName:
		if _, err := os.Stat(filepath.Join(n.root, UnitFile)); err != nil {
			return nil, errors.New("exit status 5: Failed to restart zoomies-gateway.service: Unit zoomies-gateway.service not found")
		}
		n.units[UnitName] = "enabled active"
	case "disable --now " + UnitName:
		if _, err := os.Stat(filepath.Join(n.root, UnitFile)); err != nil {
			return nil, errors.New("exit status 1: Failed to disable unit: Unit file zoomies-gateway.service does not exist")
		}
		delete(n.units, UnitName)
	default:
		return nil, fmt.Errorf("unexpected: systemctl %s", strings.Join(words, " "))
	}
	return nil, nil
}

func (n *node) pveum(words []string, flags map[string]string) ([]byte, error) {
	at := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch what, id := at(0)+" "+at(1), at(2); what {
	case "pool list":
		return shown(each(n.pools, "poolid"))
	case "pool add":
		if _, there := n.pools[id]; there {
			return fail("create pool failed: pool '%s' already exists", id)
		}
		n.pools[id] = nil
	case "pool delete":
		members, there := n.pools[id]
		if !there {
			return fail("delete pool failed: pool '%s' does not exist", id)
		} else if len(members) > 0 {
			return fail("delete pool failed: pool '%s' is not empty (contains VMs %s)", id, strings.Join(members, ","))
		}
		delete(n.pools, id)
	case "role list":
		list := []map[string]any{}
		for r, p := range n.roles {
			list = append(list, map[string]any{"roleid": r, "privs": p, "special": 0})
		}
		return shown(list)
	case "role add":
		if _, there := n.roles[id]; there {
			return fail("create role failed: role '%s' already exists", id)
		}
		n.roles[id] = flags["privs"]
	case "role modify":
		if _, there := n.roles[id]; !there {
			return fail("modify role failed: role '%s' does not exist", id)
		}
		n.roles[id] = flags["privs"]
	case "role delete":
		if _, there := n.roles[id]; !there {
			return fail("delete role failed: role '%s' does not exist", id)
		}
		delete(n.roles, id)
		n.grants = slices.DeleteFunc(n.grants, func(g Grant) bool { return g.Role == id })
	case "user list":
		return shown(each(n.users, "userid"))
	case "user add":
		if _, there := n.users[id]; there {
			return fail("create user failed: user '%s' already exists", id)
		}
		n.users[id] = map[string]string{}
	case "user delete":
		if _, there := n.users[id]; !there {
			return fail("delete user failed: no such user ('%s')", id)
		}
		delete(n.users, id)
		n.grants = slices.DeleteFunc(n.grants, func(g Grant) bool { return g.Who == id || strings.HasPrefix(g.Who, id+"!") })
	case "user token":
		return n.token(id, at(3), at(4))
	case "acl list":
		return shown(n.grants)
	case "acl modify", "acl delete":
		return n.acl(at(1), id, flags)
	default:
		return fail("ERROR: unknown command 'pveum %s'", what)
	}
	return nil, nil
}

func each[V any](m map[string]V, key string) []map[string]string {
	list := []map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, map[string]string{key: k})
	}
	return list
}

func (n *node) token(verb, user, name string) ([]byte, error) {
	tokens, there := n.users[user]
	if !there {
		return fail("no such user ('%s')", user)
	}
	_, known := tokens[name]
	switch verb {
	case "list":
		return shown(each(tokens, "tokenid"))
	case "add":
		if known {
			return fail("400 Parameter verification failed.\ntokenid: Token already exists.\npveum user token add <userid> <tokenid> [OPTIONS] [FORMAT_OPTIONS]")
		}
		tokens[name] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(n.secrets))
		n.secrets = append(n.secrets, tokens[name])
		return shown(map[string]any{"full-tokenid": user + "!" + name, "info": map[string]string{"privsep": "1"}, "value": tokens[name]})
	case "remove":
		if !known {
			return fail("no such token '%s' for user '%s'", name, user)
		}
		delete(tokens, name)
		n.grants = slices.DeleteFunc(n.grants, func(g Grant) bool { return g.Who == user+"!"+name })
		return nil, nil
	}
	return fail("ERROR: unknown command 'pveum user token %s'", verb)
}

func (n *node) acl(verb, path string, flags map[string]string) ([]byte, error) {
	g := Grant{path, flags["roles"], "user", flags["users"]}
	if flags["tokens"] != "" {
		g.Kind, g.Who = "token", flags["tokens"]
	}
	if _, there := n.roles[g.Role]; !there {
		return fail("ACL update failed: role '%s' does not exist", g.Role)
	}
	user, name, isToken := strings.Cut(g.Who, "!")
	if _, there := n.users[user]; !there {
		return fail("ACL update failed: user '%s' does not exist", user)
	}
	if _, there := n.users[user][name]; isToken && !there {
		return fail("ACL update failed: no such token '%s' for user '%s'", name, user)
	}
	n.grants = slices.DeleteFunc(n.grants, func(x Grant) bool { return x == g })
	if verb == "modify" {
		n.grants = append(n.grants, g)
	}
	return nil, nil
}

// picture is everything that there is on the node, so that two moments can be compared.
func (n *node) picture() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(n.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path) //nolint:gosec // a folder of the test's own
		if d.Type()&os.ModeSymlink != 0 {
			raw, err = []byte("link"), nil
		}
		out["file "+strings.TrimPrefix(path, n.root)] = string(raw)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, k := range slices.Sorted(maps.Keys(n.pools)) {
		out["pool "+k] = ""
	}
	for k, v := range n.roles {
		out["role "+k] = v
	}
	for k, tokens := range n.users {
		out["user "+k] = strings.Join(slices.Sorted(maps.Keys(tokens)), " ")
	}
	for _, g := range n.grants {
		out["grant "+g.key()] = ""
	}
	for k, v := range n.units {
		out["unit "+k] = v
	}
	return out
}

// compare says how two pictures differ, but for what may.
func compare(a, b map[string]string, but ...string) (out []string) {
	for k, v := range a {
		if w, there := b[k]; !there && !slices.Contains(but, k) {
			out = append(out, "gone: "+k)
		} else if v != w && !slices.Contains(but, k) {
			out = append(out, fmt.Sprintf("changed: %s: %q, %q", k, v, w))
		}
	}
	for k := range b {
		if _, there := a[k]; !there && !slices.Contains(but, k) {
			out = append(out, "new: "+k)
		}
	}
	slices.Sort(out)
	return out
}
