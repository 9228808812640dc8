package install

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/config"
)

func answers(backend string) Answers {
	a := Defaults()
	a.Backend = backend
	return a
}

func facts() Facts {
	return Facts{Root: true, Systemd: true, Self: "/media/zoomies", UID: 990, GID: 991, SubIDsFree: 100_000, Space: 100 << 30, DockerSock: true}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	if got := check(Defaults(), facts(), Manifest{}); got != nil {
		t.Errorf("a good machine: %v", got)
	}
	for name, tt := range map[string]struct {
		backend string
		change  func(*Facts)
		m       Manifest
		say     string
	}{
		"not root":           {change: func(f *Facts) { f.Root = false }, say: "sudo"},
		"no systemd":         {change: func(f *Facts) { f.Systemd = false }, say: "zoomies controller"},
		"the port is used":   {change: func(f *Facts) { f.Port = errors.New("in use") }, say: "--listen"},
		"no space":           {change: func(f *Facts) { f.Space = 1 << 30 }, say: "1024 MiB"},
		"another's data":     {change: func(f *Facts) { f.DataThere, f.DataUsed = true, true }, say: "--data-dir"},
		"no Podman":          {change: func(f *Facts) { f.Missing = []string{"podman"} }, say: "apt-get install"},
		"another's user":     {change: func(f *Facts) { f.UserThere, f.UserHome = true, "/home/zoomies" }, say: "whose home"},
		"no Docker":          {backend: "docker", change: func(f *Facts) { f.DockerSock = false }, say: "Start it"},
		"another folder now": {change: func(f *Facts) { f.Installed = true }, m: Manifest{DataDir: "/srv/z", Backend: "podman"}, say: "not moved"},
		"another agent now":  {change: func(f *Facts) { f.Installed = true }, m: Manifest{DataDir: "/var/lib/zoomies", Backend: "process"}, say: "--keep-data"},
	} {
		a, f := Defaults(), facts()
		if tt.backend != "" {
			a.Backend = tt.backend
		}
		tt.change(&f)
		if got := check(a, f, tt.m); len(got) != 1 || !strings.Contains(got[0], tt.say) {
			t.Errorf("%s: %q, want one that says %q", name, got, tt.say)
		}
	}
}

// The settings that init writes are good settings, and nothing about them needs a warning but what was chosen.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, backend := range Backends {
		a := answers(backend)
		a.DataDir = t.TempDir()
		file := filepath.Join(t.TempDir(), "zoomies.yaml")
		if err := os.WriteFile(file, []byte(settings(a, 990)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.LoadOptions{File: file})
		if err != nil {
			t.Fatalf("%s: %v", backend, err)
		}
		if c.Listen != a.Listen || c.DataDir != a.DataDir || c.Agent.Embedded != (backend != "none") || c.Agent.Embedded && !slices.Equal(c.Agent.Backends, []string{backend}) {
			t.Errorf("%s: %+v", backend, c)
		}
		if c.Serves() != config.OwnCA {
			t.Errorf("%s: serves %s", backend, c.Serves())
		}
		for _, f := range config.Validate(c) {
			if f.Severity == config.Error || !strings.Contains(f.Code, "backend_"+backend) {
				t.Errorf("%s: %s", backend, f)
			}
		}
	}
}

func TestTheUnit(t *testing.T) {
	t.Parallel()
	low := Defaults()
	low.Listen = ":443"
	for name, u := range map[string]string{"podman": unit(Defaults(), 990), "a low port": unit(low, 990)} {
		for _, want := range []string{"User=zoomies", "Restart=always", "NoNewPrivileges=yes", "ProtectSystem=strict", "ReadWritePaths=/var/lib/zoomies", "user@990.service", "XDG_RUNTIME_DIR=/run/user/990"} {
			if !strings.Contains(u, want) {
				t.Errorf("%s: the unit lacks %s", name, want)
			}
		}
		if strings.Contains(u, "ProtectHome=yes") {
			t.Errorf("%s: Podman's socket would be hidden", name)
		}
		if strings.Contains(u, "CAP_NET_BIND_SERVICE") != (name == "a low port") {
			t.Errorf("%s: the right to use low ports is wrong:\n%s", name, u)
		}
	}
	if u := unit(answers("process"), 990); strings.Contains(u, "NoNewPrivileges") || !strings.Contains(u, "KillMode=process") {
		t.Errorf("jobs of the process backend would be shut in, or end with the controller:\n%s", u)
	}
}

// systemd itself reads the units, where it is there.
func TestUnitsVerify(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze") //nolint:misspell // its name
	if err != nil {
		t.Skip("cannot have systemd read the units: " + err.Error())
	}
	for _, backend := range Backends {
		file := filepath.Join(t.TempDir(), UnitName)
		text := strings.Replace(unit(answers(backend), 990), BinFile, "/bin/true", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), tool, "verify", "--man=no", file).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, UnitName) { // other units are this machine's own affair
				t.Errorf("%s: %s (%v)", backend, strings.TrimSpace(line), err)
			}
		}
	}
}

// machine is a folder that stands for a machine, and the commands that were given on it.
type machine struct {
	t     *testing.T
	root  string
	hands *Hands
	ran   []string
	fail  string // a command that has this in it fails
	stop  func()
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	for _, d := range []string{"/etc/systemd/system", "/usr/local/bin", "/var/lib", "/media"} {
		if err := os.MkdirAll(filepath.Join(m.root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.hands = &Hands{Root: m.root, Out: io.Discard, Own: func(string, int, int) error { return nil }, Command: m.command}
	return m
}

// command does what matters here: a started service answers on its socket, and Podman has containers.
func (m *machine) command(_ context.Context, argv []string) ([]byte, error) {
	line := strings.Join(argv, " ")
	m.ran = append(m.ran, line)
	switch {
	case m.fail != "" && strings.Contains(line, m.fail):
		return nil, errors.New("planned")
	case line == "systemctl restart "+UnitName && m.stop == nil:
		ln, err := new(net.ListenConfig).Listen(context.Background(), "unix", filepath.Join(m.root, "/var/lib/zoomies/local.sock"))
		if err != nil {
			return nil, err
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })}
		m.stop = func() { _ = srv.Close() }
		m.t.Cleanup(m.stop)
		go func() { _ = srv.Serve(ln) }()
	case strings.Contains(line, " ps "):
		return []byte("aaa\nbbb\n"), nil
	}
	return nil, nil
}

func (m *machine) files() []string {
	var out []string
	_ = filepath.WalkDir(m.root, func(path string, _ os.DirEntry, err error) error {
		out = append(out, strings.TrimPrefix(path, m.root))
		return err
	})
	return out
}

func (m *machine) manifest() Manifest {
	m.t.Helper()
	x, ok, err := loadManifest(filepath.Join(m.root, ManifestFile))
	if err != nil || !ok {
		m.t.Fatalf("no manifest: %v", err)
	}
	return x
}

func (m *machine) did(text string) bool {
	return slices.ContainsFunc(m.ran, func(l string) bool { return strings.Contains(l, text) })
}

// What init makes is gone after uninstall, and every user, unit and linger that it has made is undone by its command.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, backend := range Backends {
		m := newMachine(t)
		f := facts()
		f.Self = filepath.Join(m.root, "/media/zoomies")
		if err := os.WriteFile(f.Self, []byte("program"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := m.files()
		if err := m.hands.Do(t.Context(), Install(answers(backend), f, Manifest{}), true); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.root, "/var/lib/zoomies/zoomies.db"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := m.manifest()
		m.ran = nil
		if err := m.hands.Do(t.Context(), Uninstall(got, false), false); err != nil {
			t.Fatal(err)
		}
		if after := m.files(); !slices.Equal(before, after) {
			t.Errorf("%s: left behind or taken away: %v, was %v", backend, after, before)
		}
		want := []string{"systemctl disable --now zoomies.service", "userdel zoomies"}
		switch backend {
		case "podman":
			want = append(want, "podman rm --force --volumes aaa bbb", "disable-linger", "stop user@990.service", "disable --now podman.socket")
		case "docker":
			want = append(want, "docker rm --force --volumes aaa bbb")
		case "process":
			want = append(want, "--signal=SIGKILL")
		}
		for _, w := range want {
			if !m.did(w) {
				t.Errorf("%s: %q was not run: %q", backend, w, m.ran)
			}
		}
	}
}

func TestOnlyWhatInitMadeIsRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	f := facts()
	f.Self = filepath.Join(m.root, "/media/zoomies")
	f.UserThere, f.UserHome, f.DataThere, f.BinThere, f.Settings = true, "/var/lib/zoomies", true, true, true
	for _, name := range []string{"/media/zoomies", BinFile, SettingsFile, "/var/lib/zoomies/.keep"} {
		path := filepath.Join(m.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := answers("none")
	if err := m.hands.Do(t.Context(), Install(a, f, Manifest{}), true); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(filepath.Join(m.root, SettingsFile)); string(raw) != "theirs" {
		t.Errorf("the settings were changed to %q", raw)
	}
	if err := m.hands.Do(t.Context(), Uninstall(m.manifest(), false), false); err != nil {
		t.Fatal(err)
	}
	if m.did("userdel") {
		t.Error("a user who was there before is removed")
	}
	for _, name := range []string{BinFile, "/var/lib/zoomies"} {
		if !exists(filepath.Join(m.root, name)) {
			t.Errorf("%s was there before and is gone", name)
		}
	}
}

// An init that ends in the middle is finished by the next, and what it made is known to uninstall.
func TestAnInterruptedInitGoesOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	f := facts()
	f.Self = filepath.Join(m.root, "/media/zoomies")
	if err := os.WriteFile(f.Self, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.fail = "daemon-reload"
	err := m.hands.Do(t.Context(), Install(Defaults(), f, Manifest{}), true)
	if err == nil || !strings.Contains(err.Error(), "run the same command again") {
		t.Fatalf("%v", err)
	}
	half := m.manifest()
	for _, want := range []Thing{{AUser, UserName}, {AFolder, "/var/lib/zoomies"}, {AFile, UnitFile}, {Linger, UserName}} {
		if !half.made(want) {
			t.Errorf("%v is not in the manifest", want)
		}
	}
	m.fail = ""
	f.UserThere, f.UserHome, f.SubIDs, f.DataThere, f.BinThere, f.Settings, f.Installed = true, "/var/lib/zoomies", true, true, true, true, true
	if bad := check(Defaults(), f, half); bad != nil {
		t.Errorf("the second try is refused: %v", bad)
	}
	if err := m.hands.Do(t.Context(), Install(Defaults(), f, half), true); err != nil {
		t.Fatal(err)
	}
	whole := m.manifest()
	for _, want := range append(half.Made, Thing{AUnit, UnitName}) {
		if !whole.made(want) {
			t.Errorf("%v was forgotten", want)
		}
	}
}

func TestKeepDataKeepsDataOwnerAndSettings(t *testing.T) {
	t.Parallel()
	made := Install(Defaults(), facts(), Manifest{})
	m := made.Manifest
	for _, s := range made.Steps {
		if s.Makes != nil {
			m.Made = append(m.Made, *s.Makes)
		}
	}
	p := Uninstall(m, true)
	for _, s := range p.Steps {
		if line := strings.Join(s.Run, " "); s.Remove == m.DataDir || s.Remove == SettingsFile || strings.Contains(line, "userdel") || strings.Contains(line, "system reset") {
			t.Errorf("it would %s", s.What)
		}
	}
	for _, want := range []Thing{{AUser, UserName}, {AFolder, m.DataDir}, {AFile, SettingsFile}} {
		if !p.Manifest.made(want) {
			t.Errorf("%v stays and is forgotten", want)
		}
	}
	if p.Manifest.made(Thing{AFile, UnitFile}) {
		t.Error("the unit goes and is remembered")
	}
}
