package ignition

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"golang.org/x/crypto/ssh"
)

// program is the head of one, and something to compress.
func program(t *testing.T, machine elf.Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	b.WriteString(strings.Repeat("a program ", 1000))
	return b.Bytes()
}

func packed(t *testing.T) *Binary {
	t.Helper()
	b, err := PackBinary(program(t, elf.EM_X86_64))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	joinToken = "zoojoin_0123456789secret"
	tunnelKey = "privkey:0123456789secret"
)

func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func sshKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " ada@example.test"
}

// plain is a host of which only what must be given is.
func plain(t *testing.T) Host {
	t.Helper()
	return Host{
		Machine: Machine{Hostname: "zoomies-linux-7"}, Agent: packed(t), JoinToken: joinToken,
		Controller: "https://zoomies.example.test:8443", CAPin: "sha256:" + strings.Repeat("0a", 32),
	}
}

// full is a host with everything.
func full(t *testing.T) Host {
	t.Helper()
	h := plain(t)
	h.Controller, h.CAPin, h.Tunnel, h.TunnelKey = "http://controller", "", "tunnel:address", tunnelKey
	h.TimeServers, h.CABundle, h.SSHKeys, h.SwapMiB = []string{"ntp.example.test", "192.0.2.1", "2001:db8::1"}, certificate(t), []string{sshKey(t)}, 2048
	h.Disk = &Disk{Device: "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"}
	h.Capacity, h.Labels = 4, map[string]string{"zone": "a", "disk": "nvme"}
	h.Mirrors = []Mirror{{"docker.io", "mirror.example.test:5000/hub", true}, {"ghcr.io", "mirror.example.test:5000", false}, {"docker.io", "two.example.test", false}}
	return h
}

func render(t *testing.T, r interface{ Render() ([]byte, error) }) types.Config {
	t.Helper()
	raw, err := r.Render()
	if err != nil {
		t.Fatal(err)
	}
	var c types.Config
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if c.Ignition.Version != Version {
		t.Errorf("version %s", c.Ignition.Version)
	}
	return c
}

func unitOf(t *testing.T, c types.Config, name string) types.Unit {
	t.Helper()
	i := slices.IndexFunc(c.Systemd.Units, func(u types.Unit) bool { return u.Name == name })
	if i < 0 {
		t.Fatalf("there is no unit %s", name)
	}
	if u := c.Systemd.Units[i]; u.Enabled == nil || !*u.Enabled {
		t.Errorf("%s is not enabled", name)
	}
	return c.Systemd.Units[i]
}

// Nobody gets in, and nothing is laid out, unless somebody asked for it.
func TestAPlainHostIsTouchedAsLittleAsPossible(t *testing.T) {
	t.Parallel()
	c := render(t, plain(t))
	if len(c.Passwd.Users)+len(c.Storage.Disks)+len(c.Storage.Filesystems) != 0 || len(c.Storage.Files) != 3 || len(c.Systemd.Units) != 2 {
		t.Errorf("%d users, %d disks, %d files, %d units", len(c.Passwd.Users), len(c.Storage.Disks), len(c.Storage.Files), len(c.Systemd.Units))
	}
}

func TestAFullHost(t *testing.T) {
	t.Parallel()
	h := full(t)
	c := render(t, h)
	if u := c.Passwd.Users; len(u) != 1 || u[0].Name != "core" || len(u[0].SSHAuthorizedKeys) != 1 || string(u[0].SSHAuthorizedKeys[0]) != h.SSHKeys[0] || u[0].PasswordHash != nil {
		t.Errorf("users: %+v", u)
	}
	if d := c.Storage.Disks; len(d) != 1 || d[0].Device != h.Disk.Device || *d[0].WipeTable || len(d[0].Partitions) != 1 || d[0].Partitions[0].Number != 1 {
		t.Errorf("disks: %+v", d)
	}
	if f := c.Storage.Filesystems; len(f) != 1 || *f[0].Path != "/var/lib/containers" || *f[0].Format != "ext4" || *f[0].WipeFilesystem {
		t.Errorf("filesystems: %+v", f)
	}
	if text := *unitOf(t, c, "var-lib-containers.mount").Contents; !strings.Contains(text, "Options=x-systemd.growfs,noatime") {
		t.Error(text)
	}
	if text := *unitOf(t, c, "zoomies-swap.service").Contents; !strings.Contains(text, "fallocate -l 2048M") {
		t.Error(text)
	}
	unitOf(t, c, "podman.socket")
	unitOf(t, c, "systemd-timesyncd.service")
	text := *unitOf(t, c, AgentUnit).Contents
	if !strings.Contains(text, "--name zoomies-linux-7 ") || !strings.Contains(text, "--capacity 4 --label disk=nvme --label zone=a\n") {
		t.Error(text)
	}
	if strings.Contains(text, "secret") {
		t.Error("a secret is in the unit, which everybody can read")
	}
}

func TestAPartitionOfASharedDiskLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	h := plain(t)
	h.Disk = &Disk{Device: "/dev/vda", Partition: 7, Filesystem: "xfs", Wipe: true}
	c := render(t, h)
	d, p := c.Storage.Disks[0], c.Storage.Disks[0].Partitions[0]
	if *d.WipeTable || p.Number != 7 || !*p.Resize || p.WipePartitionEntry != nil || !*c.Storage.Filesystems[0].WipeFilesystem || *c.Storage.Filesystems[0].Format != "xfs" {
		t.Errorf("%+v, %+v", d, c.Storage.Filesystems[0])
	}
	h.Disk = &Disk{Device: "/dev/vdb", Wipe: true}
	if c = render(t, h); !*c.Storage.Disks[0].WipeTable {
		t.Error("a whole disk is to be wiped, and its table stays")
	}
}

func TestAController(t *testing.T) {
	t.Parallel()
	ct := Controller{Machine: full(t).Machine, Settings: []byte("listen: \":8443\"\n")}
	c := render(t, ct)
	unitOf(t, c, ControllerUnit)
	unitOf(t, c, "var-lib-zoomies.mount")
	for _, f := range c.Storage.Files {
		if f.Path == AgentPath || f.Path == AgentEnv {
			t.Errorf("a controller has %s", f.Path)
		}
	}
	if c = render(t, Controller{Machine: Machine{Hostname: "zoomies"}}); len(c.Storage.Files) != 1 {
		t.Errorf("%d files", len(c.Storage.Files))
	}
	if _, err := (Controller{Machine: Machine{Hostname: "zoomies"}, Settings: []byte("- a\n- b\n")}).Render(); err == nil {
		t.Error("settings that are a list")
	}
}

// Each is refused with words that tell what is wrong, and none of the words is a secret.
func TestBadInput(t *testing.T) {
	t.Parallel()
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	for name, tt := range map[string]struct {
		spoil func(*Host)
		want  string
	}{
		"no name":              {func(h *Host) { h.Hostname = "" }, "DNS label"},
		"a domain":             {func(h *Host) { h.Hostname = "a.example.test" }, "DNS label"},
		"large letters":        {func(h *Host) { h.Hostname = "Host" }, "DNS label"},
		"a line in a name":     {func(h *Host) { h.Hostname = "a\nb" }, "DNS label"},
		"64 letters":           {func(h *Host) { h.Hostname = strings.Repeat("a", 64) }, "DNS label"},
		"no agent":             {func(h *Host) { h.Agent = nil }, "without the agent"},
		"another arch":         {func(h *Host) { h.Arch = "arm64" }, "the agent is for amd64"},
		"no token":             {func(h *Host) { h.JoinToken = "" }, "without a join token"},
		"a token with a line":  {func(h *Host) { h.JoinToken = "secret\nX=y" }, "cannot use the join token"},
		"a quoted token":       {func(h *Host) { h.JoinToken = `"secret"` }, "cannot use the join token"},
		"no controller":        {func(h *Host) { h.Controller = "" }, "without the controller's address"},
		"no URL":               {func(h *Host) { h.Controller = "zoomies.example.test" }, "no URL"},
		"a password":           {func(h *Host) { h.Controller = "https://ada:secret@zoomies.example.test" }, "leave out user"},
		"a query":              {func(h *Host) { h.Controller = "https://zoomies.example.test/?token=secret" }, "leave out user"},
		"plain HTTP":           {func(h *Host) { h.Controller = "http://zoomies.example.test"; h.CAPin = "" }, "plain HTTP"},
		"HTTP and a pin":       {func(h *Host) { h.Controller, h.Tunnel, h.TunnelKey = "http://controller", "a", "secret" }, "cannot pin"},
		"a pin":                {func(h *Host) { h.CAPin = "sha256:0a" }, "cannot use the pin"},
		"a tunnel, no key":     {func(h *Host) { h.Tunnel = "a" }, "tunnel of half"},
		"a key, no tunnel":     {func(h *Host) { h.TunnelKey = "secret" }, "tunnel of half"},
		"a key with a blank":   {func(h *Host) { h.Tunnel, h.TunnelKey = "a", "a secret" }, "tunnel's key"},
		"a tunnel with a line": {func(h *Host) { h.Tunnel, h.TunnelKey = "a\nb", "secret" }, "tunnel's address"},
		"capacity":             {func(h *Host) { h.Capacity = -1 }, "at once"},
		"a label":              {func(h *Host) { h.Labels = map[string]string{"a": "%h b"} }, "the label"},
		"a label's key":        {func(h *Host) { h.Labels = map[string]string{"": "b"} }, "the label"},
		"a time server":        {func(h *Host) { h.TimeServers = []string{"a b"} }, "time server"},
		"an empty time server": {func(h *Host) { h.TimeServers = []string{""} }, "time server"},
		"a CA that is none":    {func(h *Host) { h.CABundle = []byte("secret") }, "no PEM certificate"},
		"a private key":        {func(h *Host) { h.CABundle = key }, "private key"},
		"a broken certificate": {func(h *Host) {
			h.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("secret")})
		}, "cannot be read"},
		"a private SSH key":   {func(h *Host) { h.SSHKeys = []string{string(key)} }, "SSH key 1"},
		"an SSH command":      {func(h *Host) { h.SSHKeys = []string{`command="secret" ` + sshKey(t)} }, "SSH key 1"},
		"two SSH keys in one": {func(h *Host) { h.SSHKeys = []string{sshKey(t) + "\n" + sshKey(t)} }, "SSH key 1"},
		"root":                {func(h *Host) { h.SSHKeys, h.SSHUser = []string{sshKey(t)}, "root" }, "user for SSH"},
		"little swap":         {func(h *Host) { h.SwapMiB = 1 }, "swap"},
		"negative swap":       {func(h *Host) { h.SwapMiB = -5 }, "swap"},
		"a disk":              {func(h *Host) { h.Disk = &Disk{Device: "sdb"} }, "as a disk"},
		"a disk upwards":      {func(h *Host) { h.Disk = &Disk{Device: "/dev/../etc"} }, "as a disk"},
		"a partition":         {func(h *Host) { h.Disk = &Disk{Device: "/dev/vda", Partition: -1} }, "partition"},
		"a filesystem":        {func(h *Host) { h.Disk = &Disk{Device: "/dev/vdb", Filesystem: "zfs"} }, "ext4 or xfs"},
		"a registry":          {func(h *Host) { h.Mirrors = []Mirror{{Registry: "docker.io", Mirror: "https://a"}} }, "as a registry"},
		"no registry":         {func(h *Host) { h.Mirrors = []Mirror{{Mirror: "a"}} }, "as a registry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := plain(t)
			tt.spoil(&h)
			raw, err := h.Render()
			if err == nil || raw != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%d bytes, %v", len(raw), err)
			}
		})
	}
}

func TestProgramsThatAreNone(t *testing.T) {
	t.Parallel()
	object := program(t, elf.EM_X86_64)
	object[16] = byte(elf.ET_REL)
	for name, b := range map[string][]byte{"nothing": nil, "a script": []byte("#!/bin/sh\n"), "RISC-V": program(t, elf.EM_RISCV), "an object": object} {
		if _, err := PackBinary(b); err == nil {
			t.Errorf("%s was packed", name)
		}
	}
	if b, err := PackBinary(program(t, elf.EM_AARCH64)); err != nil || b.Arch() != "arm64" {
		t.Errorf("%v", err)
	}
}

// A config that is too large, or that the agent has no one place in, is not sent anywhere.
func TestAgentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	h := plain(t)
	h.Agent.source += strings.Repeat("A", MaxSize)
	if _, err := h.Render(); err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("too large: %v", err)
	}
	b := packed(t)
	for _, raw := range []string{"", b.standIn + " " + b.standIn} {
		if _, err := b.fill([]byte(raw)); err == nil {
			t.Errorf("filled into %q", raw)
		}
	}
	b.source = "no URL"
	if err := b.validate(); err == nil {
		t.Error("a source that is no URL was not seen")
	}
}

func TestSecretsDoNotPrintThemselves(t *testing.T) {
	t.Parallel()
	h := full(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if out := fmt.Sprintf(verb, h); strings.Contains(out, joinToken) || strings.Contains(out, tunnelKey) {
			t.Errorf("%s prints a secret", verb)
		}
	}
}

func TestTheSameHostGivesTheSameConfig(t *testing.T) {
	t.Parallel()
	h := full(t)
	first, err := h.Render()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		h.Agent = packed(t)
		if again, err := h.Render(); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("two configs of one host differ, %v", err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"another version": `{"ignition":{"version":"3.3.0"}}`,
		"a bad mode":      `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","mode":99999}]}}`,
		"a relative path": `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"a"}]}}`,
		"no JSON":         `x`,
	} {
		if err := Validate([]byte(raw)); err == nil {
			t.Errorf("%s is good enough", name)
		}
	}
}

// systemd itself reads the units.
func TestUnitsAreAsSystemdWantsThem(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze") //nolint:misspell // its name
	if err != nil {
		t.Skip("systemd is not installed, which could read the units")
	}
	dir := t.TempDir()
	var units []string
	for _, u := range render(t, full(t)).Systemd.Units {
		if u.Contents == nil {
			continue
		}
		text := strings.ReplaceAll(*u.Contents, AgentPath, "/bin/true") // a program that this machine has
		if err := os.WriteFile(filepath.Join(dir, u.Name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(u.Name, "zoomies") {
			units = append(units, filepath.Join(dir, u.Name))
		}
	}
	out, err := exec.CommandContext(t.Context(), program, append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte(dir)) {
		t.Errorf("%v: %s", err, out)
	}
}
