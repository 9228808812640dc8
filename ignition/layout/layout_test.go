package layout

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/ignition"
)

// program is the head of one, and bytes that compress to more than one block.
func program(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for i := range 200_000 {
		b.WriteByte(byte(i * i / 7))
	}
	return b.Bytes()
}

func host(t *testing.T) (ignition.Host, []byte) {
	t.Helper()
	p := program(t)
	agent, err := ignition.PackBinary(p)
	if err != nil {
		t.Fatal(err)
	}
	return ignition.Host{
		Machine: ignition.Machine{Hostname: "zoomies-linux-7", TimeServers: []string{"192.0.2.1"}, SwapMiB: 512}, Agent: agent,
		JoinToken: "zoojoin_x", Tunnel: "tunnel:address", TunnelKey: "key", Controller: "http://controller",
		Mirrors: []ignition.Mirror{{Registry: "docker.io", Mirror: "mirror.example.test", Insecure: true}},
	}, p
}

func render(t *testing.T, h ignition.Host) []byte {
	t.Helper()
	raw, err := h.Render()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// What lies in the folder is all that was put in, byte for byte, and nothing else.
func TestAHostIsLaidOutAsItWasPutIn(t *testing.T) {
	t.Parallel()
	h, p := host(t)
	root := t.TempDir()
	r, err := Lay(render(t, h), root)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"systemd-timesyncd.service", "zoomies-swap.service", "podman.socket", ignition.AgentUnit}; !slices.Equal(r.Enabled, want) {
		t.Errorf("enabled %q instead of %q", r.Enabled, want)
	}
	type file struct {
		mode fs.FileMode
		text string // empty is looked at below
	}
	want := map[string]file{
		"etc/hostname": {0o644, "zoomies-linux-7\n"},
		"etc/systemd/timesyncd.conf.d/50-zoomies.conf": {0o644, "[Time]\nNTP=192.0.2.1\n"},
		"etc/containers/registries.conf.d/50-zoomies.conf": {
			0o644, "[[registry]]\nprefix = \"docker.io\"\nlocation = \"docker.io\"\n\n[[registry.mirror]]\nlocation = \"mirror.example.test\"\ninsecure = true\n",
		},
		"etc/zoomies/agent.env": {
			0o600, "ZOOMIES_CONTROLLER=http://controller\nZOOMIES_JOIN_TOKEN=zoojoin_x\nZOOMIES_TUNNEL=tunnel:address\nZOOMIES_TUNNEL_KEY=key\n",
		},
		ignition.AgentPath[1:]: {0o755, string(p)},
		"etc/systemd/system-preset/20-ignition.preset": {
			0o644, "enable podman.socket\nenable systemd-timesyncd.service\nenable zoomies-agent.service\nenable zoomies-swap.service\n",
		},
		"etc/systemd/system/zoomies-agent.service": {mode: 0o644},
		"etc/systemd/system/zoomies-swap.service":  {mode: 0o644},
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		w, ok := want[name]
		if !ok {
			t.Errorf("%s is there, which nobody wanted", name)
			return nil
		}
		delete(want, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		got, err := os.ReadFile(path) //nolint:gosec // a folder of our own
		if info.Mode() != w.mode || w.text != "" && string(got) != w.text || len(got) == 0 {
			t.Errorf("%s has mode %v, and %d bytes: %.200q", name, info.Mode(), len(got), got)
		}
		return err
	})
	if err != nil || len(want) > 0 {
		t.Errorf("missing: %v, %v", want, err)
	}
	unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", ignition.AgentUnit))
	if err != nil || !strings.Contains(string(unit), "ExecStart="+ignition.AgentPath+" --name zoomies-linux-7 ") {
		t.Errorf("%v: %s", err, unit)
	}
}

// A byte that was altered on the way is found out, whether gzip notices or only the hash does, and the agent is not left there to be
// started.
func TestAnAlteredAgentIsRefused(t *testing.T) {
	t.Parallel()
	h, p := host(t)
	raw := render(t, h)
	p[len(p)/2] ^= 1
	other, err := ignition.PackBinary(p)
	if err != nil {
		t.Fatal(err)
	}
	h.Agent = other
	swapped := bytes.ReplaceAll(render(t, h), []byte(other.SHA256()), []byte(sumOf(t, raw)))
	flipped := bytes.Clone(raw)
	at := bytes.Index(flipped, []byte("data:;base64,H4s"))
	at += bytes.IndexByte(flipped[at:], '"') / 2 // in the middle of the packed agent
	flipped[at] = map[bool]byte{true: 'B', false: 'A'}[flipped[at] == 'A']
	for name, config := range map[string][]byte{"another program": swapped, "a letter on the way": flipped} {
		root := t.TempDir()
		if _, err := Lay(config, root); err == nil || !strings.Contains(err.Error(), ignition.AgentPath) {
			t.Errorf("%s: %v", name, err)
		} else if name == "another program" && !strings.Contains(err.Error(), "the sha256 hash is") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(root, ignition.AgentPath)); err == nil {
			t.Errorf("%s: the agent was laid out", name)
		}
	}
}

// sumOf is the agent's hash as a config has it.
func sumOf(t *testing.T, raw []byte) string {
	t.Helper()
	_, rest, ok := bytes.Cut(raw, []byte(`"hash":"sha256-`))
	if !ok {
		t.Fatal("the config has no hash in it")
	}
	return string(rest[:64])
}

// config wraps parts of one.
func config(t *testing.T, storage, systemd string) []byte {
	t.Helper()
	raw := []byte(`{"ignition":{"version":"3.4.0"},"storage":{` + storage + `},"systemd":{` + systemd + `}}`)
	if !json.Valid(raw) {
		t.Fatalf("no JSON: %s", raw)
	}
	return raw
}

func TestFilesDirectoriesAndLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "old", "old")
	put(t, root, "grow", "one")
	put(t, root, "tree/leaf", "leaf")
	put(t, root, "kept", "kept")
	r, err := Lay(config(t, `
		"directories":[{"path":"/d","mode":1023},{"path":"/d/deep/er"},{"path":"/tree","overwrite":true}],
		"files":[
			{"path":"/old","overwrite":true,"contents":{"source":"data:,new"}},
			{"path":"/grow","append":[{"source":"data:,%20two"}]},
			{"path":"/d/empty"},{"path":"/d/set","mode":2541,"contents":{"source":"data:,x"}},{"path":"/kept","mode":256}],
		"links":[{"path":"/d/soft","target":"../old"},{"path":"/d/out","target":"/etc/passwd"},{"path":"/hard","target":"/old","hard":true}]`,
		`"units":[{"name":"a.service","mask":true},{"name":"b.service","enabled":false,"dropins":[{"name":"c.conf","contents":"[Service]\n"}]}]`), root)
	if err != nil || len(r.Enabled) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, want := range map[string]struct {
		mode fs.FileMode
		text string
	}{
		"d": {fs.ModeDir | fs.ModeSticky | 0o777, ""}, "d/deep/er": {fs.ModeDir | 0o755, ""}, "tree": {fs.ModeDir | 0o755, ""},
		"old": {0o644, "new"}, "hard": {0o644, "new"}, "grow": {0o600, "one two"}, "d/empty": {0o644, ""}, "d/set": {fs.ModeSetuid | 0o755, "x"},
		"kept": {0o400, "kept"}, "etc/systemd/system/b.service.d/c.conf": {0o644, "[Service]\n"},
		"etc/systemd/system-preset/20-ignition.preset": {0o644, "disable b.service\n"},
	} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode() != want.mode {
			t.Errorf("%s has mode %v instead of %v", name, info.Mode(), want.mode)
		}
		if info.IsDir() {
			continue
		}
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want.text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"d/soft": "../old", "d/out": "/etc/passwd", "etc/systemd/system/a.service": "/dev/null"} {
		if got, err := os.Readlink(filepath.Join(root, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "tree/leaf")); err == nil {
		t.Error("a directory was not overwritten")
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each is refused; what was there before stays as it was.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ storage, systemd, want string }{
		"a file that is there":  {`"files":[{"path":"/there","contents":{"source":"data:,x"}}]`, "", "overwrite is not set"},
		"a folder for a file":   {`"files":[{"path":"/dir","contents":{"source":"data:,x"}}]`, "", "overwrite is not set"},
		"a file for a folder":   {`"directories":[{"path":"/there"}]`, "", "overwrite is not set"},
		"a link that is there":  {`"links":[{"path":"/there","target":"/x"}]`, "", "overwrite is not set"},
		"another hard link":     {`"links":[{"path":"/there","target":"/dir/x","hard":true}]`, "", "overwrite is not set"},
		"through a way out":     {`"files":[{"path":"/out/x","contents":{"source":"data:,x"}}]`, "", "/out/x"},
		"up and out":            {`"files":[{"path":"/../../x/y","contents":{"source":"data:,x"}}]`, "", ""},
		"a download":            {`"files":[{"path":"/x","contents":{"source":"https://example.test/x"}}]`, "", "to be fetched"},
		"another compression":   {`"files":[{"path":"/x","contents":{"source":"data:,x","compression":"xz"}}]`, "", "cannot lay"},
		"no gzip":               {`"files":[{"path":"/x","contents":{"source":"data:,x","compression":"gzip"}}]`, "", "cannot be unpacked"},
		"somebody's file":       {`"files":[{"path":"/x","user":{"name":"ada"}}]`, "", "somebody else"},
		"another group's":       {`"directories":[{"path":"/x","group":{"id":7}}]`, "", "somebody else"},
		"disks":                 {`"disks":[{"device":"/dev/vdb"}]`, "", "storage.disks"},
		"filesystems":           {`"filesystems":[{"device":"/dev/vdb","format":"ext4","path":"/x"}]`, "", "storage.filesystems"},
		"a template":            {"", `"units":[{"name":"a@.service","contents":"[Unit]\n"}]`, "templates"},
		"what Ignition refuses": {`"files":[{"path":"x"}]`, "", "no Ignition config"},
		"a wrong hash":          {`"files":[{"path":"/x","contents":{"source":"data:,x","verification":{"hash":"sha256-` + strings.Repeat("0", 64) + `"}}}]`, "", "not what was meant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside, root := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
			put(t, root, "there", "there")
			put(t, root, "dir/x", "x")
			if err := os.Symlink(outside, filepath.Join(root, "out")); err != nil {
				t.Fatal(err)
			}
			_, err := Lay(config(t, tt.storage, tt.systemd), root)
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v", err)
			}
			if got, err := os.ReadFile(filepath.Join(root, "there")); err != nil || string(got) != "there" {
				t.Errorf("what was there is now %q, %v", got, err)
			}
			for _, dir := range []string{outside, filepath.Dir(root)} {
				if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 || dir == outside && len(entries) > 0 {
					t.Errorf("%s: %v, %v", dir, entries, err)
				}
			}
		})
	}
}

func TestParsersOfOlderConfigs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if _, err := Lay([]byte(`{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/x","contents":{"source":"data:,x"}}]}}`), root); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "x")); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"ignition":{"version":"2.2.0"}}`, `{"ignition":{"version":"3.6.0"}}`} {
		if _, err := Lay([]byte(bad), root); err == nil {
			t.Errorf("%q was laid out", bad)
		}
	}
}

func FuzzLay(f *testing.F) {
	f.Add([]byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/../x","contents":{"source":"data:;base64,eA==","compression":"gzip"}}],"links":[{"path":"/l","target":"/etc"}]}}`))
	f.Add([]byte(`{"ignition":{"version":"3.4.0"},"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]","dropins":[{"name":"b.conf","contents":"x"}]}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		above := t.TempDir()
		root := filepath.Join(above, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = Lay(raw, root)
		if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
			t.Errorf("it got out of the root: %v, %v", entries, err)
		}
	})
}
