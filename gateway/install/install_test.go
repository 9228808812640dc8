package install

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/provider/proxmox/privileges"
)

func TestAFreshNodeIsConnected(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	before := n.picture()
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	if len(n.posted) != 1 {
		t.Fatalf("posted %d times", len(n.posted))
	}
	c := n.posted[0]
	if c.Endpoint != "https://pve1.example.org:8006" || !strings.Contains(c.CA, "BEGIN CERTIFICATE") || !strings.HasPrefix(c.Fingerprint, "sha256:") ||
		c.TokenID != "zoomies@pve!home" || c.TokenSecret != n.secrets[0] || c.Gateway != "tcGateway" || c.Node != "pve1" || c.Version != "9.2.11" ||
		strings.Join(c.Storages, " ") != "fast local" || c.Pool != "zoomies" || c.Bridge != "vmbr0" {
		t.Errorf("posted %+v", c)
	}
	v := privileges.Version{Major: 9, Minor: 2}
	for _, s := range privileges.Scopes {
		if got, want := n.roles[s.Role()], strings.Join(privileges.On(s, v), ","); got != want {
			t.Errorf("%s has %s, want %s", s.Role(), got, want)
		}
	}
	for _, who := range []Grant{{Kind: "user", Who: "zoomies@pve"}, {Kind: "token", Who: "zoomies@pve!home"}} {
		for path, role := range map[string]string{"/pool/zoomies": "ZoomiesPool", "/storage/local": "ZoomiesStorage", "/storage/fast": "ZoomiesStorage", "/sdn/zones/localnetwork/vmbr0": "ZoomiesBridge"} {
			if !slices.Contains(n.grants, Grant{path, role, who.Kind, who.Who}) {
				t.Errorf("%s does not have %s on %s", who.Who, role, path)
			}
		}
	}
	if len(n.grants) != 1+8 {
		t.Errorf("grants: %v", n.grants)
	}
	if n.units[UnitName] != "enabled active" {
		t.Errorf("the service is %q", n.units[UnitName])
	}
	n.keepsSecrets()
	for path, mode := range map[string]fs.FileMode{KeepDir: 0o700 | fs.ModeDir, JournalFile: 0o600, ProgramFile: 0o755, UnitFile: 0o644} {
		if info, err := os.Stat(filepath.Join(n.root, path)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if there, _ := n.host.exists(secretFile); there {
		t.Error("the token's secret is still kept")
	}
	if err := n.uninstall(); err != nil {
		t.Fatal(err)
	}
	if diff := compare(before, n.picture()); diff != nil {
		t.Errorf("after uninstall:\n%s", strings.Join(diff, "\n"))
	}
	n.leavesAgents()
}

// keepsSecrets looks for the capability and the token's secrets where they must not be.
func (n *node) keepsSecrets() {
	n.t.Helper()
	words := append([]string{"zoogateway_secret"}, n.secrets...)
	for _, w := range words {
		for _, argv := range n.ran {
			if strings.Contains(strings.Join(argv, " "), w) {
				n.t.Errorf("a secret is an argument of %s %s", argv[0], argv[1])
			}
		}
		if strings.Contains(n.log.String(), w) {
			n.t.Error("a secret is printed")
		}
		for name, text := range n.picture() {
			if strings.Contains(text, w) && name != "file "+secretFile {
				n.t.Errorf("a secret is in %s", name)
			}
		}
	}
}

func (n *node) leavesAgents() {
	n.t.Helper()
	for _, argv := range n.ran {
		if line := strings.Join(argv, " "); argv[0] == "systemctl" && line != "systemctl daemon-reload" && !strings.HasSuffix(line, " "+UnitName) {
			n.t.Errorf("it ran %s", line)
		}
	}
}

var errKilled = errors.New("killed")

// The program may end at any point, before and after the effect of each step: the same command, run again, finishes, with the same
// outcome as if nothing had happened, and uninstall leaves the node as it was.
func TestEveryKillPoint(t *testing.T) {
	t.Parallel()
	whole := newNode(t)
	if err := whole.install(whole.answers()); err != nil {
		t.Fatal(err)
	}
	want := whole.picture()
	points := 0
	for at := 1; ; at++ {
		n := newNode(t)
		before := n.picture()
		seen := 0
		n.host.point = func() error {
			if seen++; seen == at {
				return errKilled
			}
			return nil
		}
		err := n.install(n.answers())
		if err == nil {
			break // there is no such point
		}
		points++
		if !errors.Is(err, errKilled) {
			t.Fatalf("point %d: %v", at, err)
		}
		n.keepsSecrets()
		half := newJournal(t, n)
		n.host.point = nil
		if at%2 == 0 { // half of them are given up
			if err := n.uninstallIfAny(); err != nil {
				t.Fatalf("point %d: giving up: %v", at, err)
			}
			if diff := compare(before, n.picture()); diff != nil {
				t.Errorf("point %d: given up after %v, and there is\n%s", at, half, strings.Join(diff, "\n"))
			}
			if len(n.posted) > 0 {
				continue
			}
		}
		if err := n.install(n.answers()); err != nil {
			t.Fatalf("point %d, again: %v", at, err)
		}
		if diff := compare(want, n.picture(), "file "+JournalFile); diff != nil {
			t.Errorf("point %d:\n%s", at, strings.Join(diff, "\n"))
		}
		last := n.posted[len(n.posted)-1]
		if last.TokenSecret != n.users[User]["home"] {
			t.Errorf("point %d: the controller has another secret than the token", at)
		}
		n.keepsSecrets()
		if err := n.uninstall(); err != nil {
			t.Fatalf("point %d: %v", at, err)
		}
		if diff := compare(before, n.picture()); diff != nil {
			t.Errorf("point %d, after uninstall:\n%s", at, strings.Join(diff, "\n"))
		}
	}
	if points < 40 {
		t.Errorf("there are %d points to die at", points)
	}
	t.Logf("%d points", points)
}

func newJournal(t *testing.T, n *node) []Thing {
	t.Helper()
	j, _, err := n.host.Journal()
	if err != nil {
		t.Fatal(err)
	}
	return j.Made
}

func (n *node) uninstallIfAny() error {
	if _, there, err := n.host.Journal(); err != nil || !there {
		return err
	}
	return n.uninstall()
}

// An uninstall that is killed is finished by the next.
func TestEveryKillPointOfUninstall(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		n := newNode(t)
		before := n.picture()
		if err := n.install(n.answers()); err != nil {
			t.Fatal(err)
		}
		seen := 0
		n.host.point = func() error {
			if seen++; seen == at {
				return errKilled
			}
			return nil
		}
		err := n.uninstall()
		if err == nil {
			if at < 20 {
				t.Errorf("%d points", at)
			}
			return
		}
		n.host.point = nil
		if err := n.uninstall(); err != nil {
			t.Fatalf("point %d: %v", at, err)
		}
		if diff := compare(before, n.picture()); diff != nil {
			t.Errorf("point %d:\n%s", at, strings.Join(diff, "\n"))
		}
	}
}

// What was there before is used, and stays.
func TestWhatWasThereBeforeStays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.pools["zoomies"] = []string{"100"}
	n.users[User] = map[string]string{"other": "x"}
	n.roles["ZoomiesBridge"] = "SDN.Use"
	n.grants = append(n.grants, Grant{"/pool/zoomies", "ZoomiesPool", "user", User}, Grant{"/storage/local", "PVEAuditor", "token", User + "!other"})
	n.roles["ZoomiesPool"] = strings.Join(privileges.On(privileges.OnPool, privileges.Version{Major: 9, Minor: 2}), ",")
	before := n.picture()
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	if err := n.uninstall(); err != nil {
		t.Fatal(err)
	}
	if diff := compare(before, n.picture()); diff != nil {
		t.Errorf("after uninstall:\n%s", strings.Join(diff, "\n"))
	}
}

// What others have come to use by then stays, too; and a pool with machines in it is named.
func TestWhatOthersUseStays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	n.users[User]["second"] = "x"
	n.grants = append(n.grants, Grant{"/storage/big", "ZoomiesStorage", "token", User + "!second"})
	n.pools["zoomies"] = []string{"9000"}
	err := n.uninstall()
	if err == nil || !strings.Contains(err.Error(), "resource pool zoomies") {
		t.Errorf("the pool: %v", err)
	}
	if _, there := n.users[User]; !there {
		t.Error("a user with another token is removed")
	}
	if _, there := n.roles["ZoomiesStorage"]; !there {
		t.Error("a role that is in use is removed")
	}
	if _, there := n.roles["ZoomiesPool"]; there {
		t.Error("a role that nobody uses stays")
	}
	n.pools["zoomies"] = nil
	if err := n.uninstall(); err != nil {
		t.Error(err)
	}
	if _, there, _ := n.host.Journal(); there {
		t.Error("the journal stays")
	}
}

// A setup that is made anew for the same connection gets a new secret; the same command twice posts once.
func TestRunningItAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for range 2 {
		if err := n.install(n.answers()); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.posted) != 1 || len(n.secrets) != 1 {
		t.Errorf("posted %d times, %d secrets", len(n.posted), len(n.secrets))
	}
	var got []string
	n.host.Post = func(_ context.Context, capability string, c Connection) error {
		got = append(got, capability+" "+c.TokenSecret)
		return nil
	}
	a := n.answers()
	a.Capability = "zoogateway_second"
	if err := n.install(a); err != nil {
		t.Fatal(err)
	}
	if len(n.secrets) != 2 || strings.Join(got, "") != "zoogateway_second "+n.users[User]["home"] {
		t.Errorf("posted %v", got)
	}
	for _, g := range grantsFor(a, []string{"fast", "local"}, "token", a.TokenID()) {
		if !slices.Contains(n.grants, g) {
			t.Errorf("the new token lacks %v", g)
		}
	}
}

// The answer to the completion is lost: the repeat says the same.
func TestALostAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	lost := true
	take := n.host.Post
	n.host.Post = func(ctx context.Context, capability string, c Connection) error {
		err := take(ctx, capability, c)
		if lost {
			lost = false
			return errors.New("connection reset by peer")
		}
		return err
	}
	if err := n.install(n.answers()); err == nil || !strings.Contains(err.Error(), "run the same command again") {
		t.Fatal(err)
	}
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	if len(n.posted) != 2 || !sameConnection(n.posted[0], n.posted[1]) {
		t.Errorf("posted %d", len(n.posted))
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	before := n.picture()
	f, err := n.host.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Install(n.answers(), f, Journal{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	Show(&out, f, p)
	if diff := compare(before, n.picture()); diff != nil {
		t.Errorf("changed:\n%s", strings.Join(diff, "\n"))
	}
	for _, argv := range n.ran {
		if !slices.Contains(argv, "list") && !slices.Contains(argv, "get") {
			t.Errorf("it ran %v", argv)
		}
		if !strings.Contains(out.String(), Quoted(argv)) {
			t.Errorf("%v was run and is not printed", argv)
		}
	}
	// And what it prints is what is run.
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	for _, argv := range n.ran {
		if !strings.Contains(out.String(), Quoted(argv)+"\n") {
			t.Errorf("%v is not printed", argv)
		}
	}
	if strings.Contains(out.String(), "zoogateway_secret") {
		t.Error("the capability is printed")
	}
}

func TestWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*node, *Answers)
		word  string
	}{
		"an old release":       {func(n *node, _ *Answers) { n.version = "8.2.4" }, "8.3 or later"},
		"a foreign token":      {func(n *node, _ *Answers) { n.users[User] = map[string]string{"home": "x"} }, "give the connection another name"},
		"a foreign role":       {func(n *node, _ *Answers) { n.roles["ZoomiesPool"] = "VM.Allocate" }, "pveum role modify ZoomiesPool"},
		"a foreign unit":       {func(n *node, _ *Answers) { n.file(UnitFile, "x") }, "did not write"},
		"no such bridge":       {func(_ *node, a *Answers) { a.Bridge = "vmbr9" }, "choose one of vmbr0"},
		"no such storage":      {func(_ *node, a *Answers) { a.Storages = []string{"tape"} }, "no storage tape"},
		"a storage that's off": {func(_ *node, a *Answers) { a.Storages = []string{"off"} }, "no storage off"},
		"one of another node":  {func(_ *node, a *Answers) { a.Storages = []string{"big"} }, "no storage big"},
		"no Proxmox at all":    {func(n *node, _ *Answers) { _ = os.Remove(filepath.Join(n.root, "/etc/pve/local")) }, "no Proxmox VE node"},
		"a bad name":           {func(_ *node, a *Answers) { a.Name = "-x" }, "--name"},
		"a flag in a name":     {func(_ *node, a *Answers) { a.Pool = "--privs" }, "--pool"},
		"a bad relay":          {func(_ *node, a *Answers) { a.Relay = "x\" y" }, "--relay"},
		"plain HTTP":           {func(_ *node, a *Answers) { a.Controller = "http://zoomies.example.org" }, "--controller"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			a := n.answers()
			c.spoil(n, &a)
			before := n.picture()
			if err := n.install(a); err == nil || !strings.Contains(err.Error(), c.word) {
				t.Errorf("got %v, want %q", err, c.word)
			}
			if diff := compare(before, n.picture()); diff != nil {
				t.Errorf("and changed:\n%s", strings.Join(diff, "\n"))
			}
		})
	}
}

func TestAnotherConnectionIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if err := n.install(n.answers()); err != nil {
		t.Fatal(err)
	}
	a := n.answers()
	a.Name = "work"
	if err := n.install(a); err == nil || !strings.Contains(err.Error(), "zoomies gateway uninstall") {
		t.Errorf("got %v", err)
	}
}

// A gateway that the controller does not let in is said so, and the journal still ends it.
func TestAGatewayThatIsNotLetIn(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	before := n.picture()
	n.admits = false
	if err := n.install(n.answers()); err == nil || !strings.Contains(err.Error(), "journalctl -u zoomies-gateway") {
		t.Errorf("got %v", err)
	}
	if err := n.uninstall(); err != nil {
		t.Fatal(err)
	}
	if diff := compare(before, n.picture()); diff != nil {
		t.Errorf("after uninstall:\n%s", strings.Join(diff, "\n"))
	}
}

// Whose certificate it is decides by what the controller knows it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tmpl *x509.Certificate
		ours bool // from the cluster's authority
		self bool
		want string // name
		ca   bool
		word string
	}{
		"an operator's own, of everybody's authority": {tmpl: &x509.Certificate{DNSNames: []string{"pve.example.net"}}, want: "pve.example.net"},
		"self-signed":      {tmpl: &x509.Certificate{DNSNames: []string{"pve1.lan"}, Subject: pkix.Name{CommonName: "pve1"}}, self: true, want: "pve1.lan", ca: true},
		"for no name":      {tmpl: &x509.Certificate{DNSNames: []string{"localhost"}}, word: "for no name"},
		"one that ended":   {tmpl: &x509.Certificate{DNSNames: []string{"pve1.lan"}, NotAfter: today.AddDate(0, 0, -1)}, word: "ended on"},
		"the node's first": {tmpl: &x509.Certificate{DNSNames: []string{"other.example.net", "pve1.example.net"}}, want: "pve1.example.net"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			var ca *x509.Certificate
			ca, key := certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "somebody"}, IsCA: true, BasicConstraintsValid: true}, nil, nil)
			if c.self {
				ca, key = nil, nil
			}
			leaf, _ := certificate(t, c.tmpl, ca, key)
			n.file("/etc/pve/nodes/pve1/pveproxy-ssl.pem", pemOf(leaf))
			got, err := n.host.certificate("pve1")
			if c.word != "" {
				if err == nil || !strings.Contains(err.Error(), c.word) {
					t.Errorf("got %v, want %q", err, c.word)
				}
				return
			}
			if err != nil || got.Name != c.want || (got.CA != "") != c.ca {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestWhereTheAPIListens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "127.0.0.1:8006", "LISTEN_IP=\"192.0.2.7\"\n": "192.0.2.7:8006", "# LISTEN_IP=\"192.0.2.7\"\n": "127.0.0.1:8006",
		"LISTEN_IP=\"::\"\n": "127.0.0.1:8006", "LISTEN_IP='2001:db8::1'\nCIPHERS=x\n": "[2001:db8::1]:8006",
	} {
		n := newNode(t)
		if text != "" {
			n.file("/etc/default/pveproxy", text)
		}
		if got, err := n.host.target(); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func TestTheUnitIsShutIn(t *testing.T) {
	t.Parallel()
	a := newNode(t).answers()
	a.Relay = "tc%41"
	u := unit(a, "127.0.0.1:8006")
	for _, want := range []string{
		"ExecStart=" + ProgramFile + " gateway run --state-dir " + StateDir + " --target 127.0.0.1:8006 --quiet", "DynamicUser=yes", "NoNewPrivileges=yes",
		"ProtectSystem=strict", "CapabilityBoundingSet=\n", "StateDirectoryMode=0700", `ZOOMIES_GATEWAY_RELAY=tc%%41"`, "InaccessiblePaths=-/etc/pve",
	} {
		if !strings.Contains(u, want) {
			t.Errorf("the unit lacks %q:\n%s", want, u)
		}
	}
	if strings.Contains(u, a.Capability) {
		t.Error("the capability is in the unit")
	}
}

func TestCommandsAreQuoted(t *testing.T) {
	t.Parallel()
	if got := Quoted([]string{"pveum", "user", "add", "a@pve", "--comment", "it's; here", ""}); got != `pveum user add a@pve --comment 'it'\''s; here' ''` {
		t.Error(got)
	}
}
