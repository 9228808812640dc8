package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// emptyMachine has no files.
func emptyMachine() machine {
	return machine{stat: func(path string) (fs.FileInfo, error) {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}}
}

func codes(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, string(f.Severity)+" "+f.Code)
	}
	return out
}

func TestDefaultsAreSafe(t *testing.T) {
	t.Parallel()
	if f := validate(Default(), emptyMachine()); f != nil {
		t.Errorf("the defaults have findings: %v", f)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	socket := func(m *machine) {
		m.userSocket = "/run/user/1000/podman/podman.sock"
		m.stat = func(path string) (fs.FileInfo, error) {
			if path == m.userSocket {
				return os.Stat(os.DevNull)
			}
			return nil, fs.ErrNotExist
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*Config)
		machine func(*machine)
		want    []string
	}{
		{name: "listen on every address", change: func(c *Config) { c.Listen = ":8080" }},
		{name: "listen on every address in the clear", change: func(c *Config) { c.Listen, c.TLS.Mode = ":8080", "off" }, want: []string{"warning listen.no_tls"}},
		{name: "a public address", change: func(c *Config) { c.PublicURL = "https://zoomies.example:8443/" }},
		{name: "a local address", change: func(c *Config) { c.PublicURL = "http://127.0.0.1:8080" }},
		{name: "a public address in the clear", change: func(c *Config) { c.PublicURL = "http://zoomies.example" }, want: []string{"error public_url.invalid"}},
		{name: "a public address with a path", change: func(c *Config) { c.PublicURL = "https://zoomies.example/x" }, want: []string{"error public_url.invalid"}},
		{name: "no public address", change: func(c *Config) { c.PublicURL = "zoomies.example" }, want: []string{"error public_url.invalid"}},
		{name: "listen on a network", change: func(c *Config) { c.Listen, c.TLS.Mode = "192.0.2.1:80", "off" }, want: []string{"warning listen.no_tls"}},
		{name: "listen on a name", change: func(c *Config) { c.Listen, c.TLS.Mode = "example.test:80", "off" }, want: []string{"warning listen.no_tls"}},
		{name: "listen on localhost", change: func(c *Config) { c.Listen = "localhost:0" }},
		{name: "listen on IPv6 loopback", change: func(c *Config) { c.Listen = "[::1]:80" }},
		{name: "no port", change: func(c *Config) { c.Listen = "127.0.0.1" }, want: []string{"error listen.invalid"}},
		{name: "port out of range", change: func(c *Config) { c.Listen = "127.0.0.1:70000" }, want: []string{"error listen.invalid"}},
		{name: "half of TLS", change: func(c *Config) { c.TLS.CertFile = "/c" }, want: []string{"error tls.incomplete", "error file.unreadable"}},
		{name: "files of TLS and none named", change: func(c *Config) { c.TLS.Mode = "files" }, want: []string{"error tls.incomplete"}},
		{name: "proxies", change: func(c *Config) { c.HTTP.TrustedProxies = []string{"127.0.0.1", "10.0.0.0/8", "2001:db8::/32"} }},
		{name: "no proxy", change: func(c *Config) { c.HTTP.TrustedProxies = []string{"proxy.example"} }, want: []string{"error http.proxies_invalid"}},
		{name: "everybody is a proxy", change: func(c *Config) { c.HTTP.TrustedProxies = []string{"0.0.0.0/0"} }, want: []string{"warning http.proxies_all"}},
		{name: "poller off", change: func(c *Config) { c.GitHub.PollFallback = false }, want: []string{"warning github.poll_off"}},
		{name: "too many mints", change: func(c *Config) { c.GitHub.MintsPerMinute = 151 }, want: []string{"warning github.mints_high"}},
		{name: "impatient", change: func(c *Config) { c.Scheduler.ProvisionTimeout = 13 * time.Minute }, want: []string{"warning scheduler.provision_short"}},
		{name: "slow daemon", change: func(c *Config) { c.Runners.DockerWait = time.Hour }, want: []string{"warning scheduler.provision_short"}},
		{name: "too patient", change: func(c *Config) { c.Scheduler.ProvisionTimeout = 21 * time.Minute }, want: []string{"warning scheduler.provision_long"}},
		{name: "quiet agents", change: func(c *Config) { c.Agent.HeartbeatInterval = 46 * time.Second }, want: []string{"warning agent.heartbeat_slow"}},
		{name: "just not quiet", change: func(c *Config) { c.Agent.HeartbeatInterval = 45 * time.Second }},
		{name: "no backend", change: func(c *Config) { c.Agent.Backends = nil }, want: []string{"error agent.no_backend"}},
		{name: "processes", change: func(c *Config) { c.Agent.Backends = []string{"podman", "process"} }, want: []string{"warning agent.backend_process"}},
		{name: "docker", change: func(c *Config) { c.Agent.Backends = []string{"docker"} }, want: []string{"warning agent.backend_docker"}},
		{name: "processes without an embedded agent", change: func(c *Config) { c.Agent.Embedded, c.Agent.Backends = false, []string{"process"} }},
		{name: "system socket beside the user's", change: func(c *Config) { c.Agent.PodmanSocket = "/run/podman/podman.sock" }, machine: socket, want: []string{"warning agent.rootful_socket"}},
		{name: "the user's socket", change: func(c *Config) { c.Agent.PodmanSocket = "/run/user/1000/podman/podman.sock" }, machine: socket},
		{name: "system socket and no other", change: func(c *Config) { c.Agent.PodmanSocket = "/run/podman/podman.sock" }},
		{name: "secret in the environment", change: func(c *Config) { c.Runners.Env = map[string]string{"npm_token": "x"} }, want: []string{"warning runners.env_secret"}},
		{name: "reserved name", change: func(c *Config) { c.Runners.Env = map[string]string{"ZOOMIES_JIT": "x"} }, want: []string{"warning runners.env_reserved"}},
		{name: "plain variable", change: func(c *Config) { c.Runners.Env = map[string]string{"HTTP_PROXY": "x"} }},
		{name: "errors come first", change: func(c *Config) { c.GitHub.PollFallback, c.Agent.Backends = false, nil }, want: []string{"error agent.no_backend", "warning github.poll_off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, m := Default(), emptyMachine()
			tt.change(c)
			if tt.machine != nil {
				tt.machine(&m)
			}
			findings := validate(c, m)
			if got := codes(findings); !slices.Equal(got, tt.want) {
				t.Errorf("findings are %v, want %v", got, tt.want)
			}
			for _, f := range findings {
				if f.Title == "" || f.Why == "" || f.Fix == "" {
					t.Errorf("%s says too little: %s", f.Code, f)
				}
				if _, ok := byKey[f.Key]; !ok {
					t.Errorf("%s names the setting %q, which does not exist", f.Code, f.Key)
				}
			}
		})
	}
}

// Files that others can read or change are errors, on real files.
func TestValidateFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                       string
		dir, settings, key, tlsKey fs.FileMode
		want                       []string
	}{
		{name: "private", dir: 0o700, settings: 0o600, key: 0o600, tlsKey: 0o400},
		{name: "readable folder and settings", dir: 0o755, settings: 0o644, key: 0o600, tlsKey: 0o600},
		{name: "open folder", dir: 0o777, settings: 0o600, key: 0o600, tlsKey: 0o600, want: []string{"error data_dir.writable"}},
		{name: "open settings", dir: 0o700, settings: 0o664, key: 0o600, tlsKey: 0o600, want: []string{"error settings_file.writable"}},
		{name: "readable keys", dir: 0o700, settings: 0o600, key: 0o640, tlsKey: 0o604, want: []string{"error secrets.exposed", "error secrets.exposed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put := func(name string, mode fs.FileMode) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, nil, mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, mode); err != nil { // whatever the umask
					t.Fatal(err)
				}
				return path
			}
			settings := put("zoomies.yaml", tt.settings)
			put("zoomies.keys", tt.key)
			cert, key := put("cert.pem", 0o644), put("key.pem", tt.tlsKey)
			if err := os.Chmod(dir, tt.dir); err != nil {
				t.Fatal(err)
			}
			c, err := Load(LoadOptions{File: settings, Environ: []string{
				"ZOOMIES_DATA_DIR=" + dir, "ZOOMIES_TLS_CERT_FILE=" + cert, "ZOOMIES_TLS_KEY_FILE=" + key, "ZOOMIES_LISTEN=0.0.0.0:443",
			}})
			if err != nil {
				t.Fatal(err)
			}
			findings := Validate(c)
			if got := codes(findings); !slices.Equal(got, tt.want) {
				t.Errorf("findings are %v, want %v", got, tt.want)
			}
			if Errors(findings) != (tt.want != nil) {
				t.Errorf("Errors is %v", Errors(findings))
			}
		})
	}
}

// A setting of the kind SecretFile is looked at, so a new one cannot be forgotten.
func TestEverySecretFileIsChecked(t *testing.T) {
	t.Parallel()
	for _, s := range Registry() {
		if s.Kind != SecretFile {
			continue
		}
		if !slices.ContainsFunc(namedFiles(Default()), func(f namedFile) bool { return f.key == s.Key && f.secret }) {
			t.Errorf("namedFiles does not list %s", s.Key)
		}
	}
}

func TestUnknownNamesAreFindings(t *testing.T) {
	t.Parallel()
	c, err := Load(LoadOptions{
		Database:       map[string]string{"fleet.colour": "red", "internal.fleet_id": "abc"},
		Environ:        []string{"ZOOMIES_LISTN=x", "ZOOMIES_JOIN_TOKEN=zoojoin_x", "HOME=/"},
		OtherVariables: []string{"ZOOMIES_JOIN_TOKEN"},
	})
	if err != nil {
		t.Fatal(err)
	}
	findings := validate(c, emptyMachine())
	want := []string{"warning settings.unknown_database_key", "warning settings.unknown_variable"}
	if got := codes(findings); !slices.Equal(got, want) {
		t.Fatalf("findings are %v, want %v", got, want)
	}
	if want := "The variable ZOOMIES_LISTN names no setting; perhaps ZOOMIES_LISTEN was meant."; findings[1].Title != want {
		t.Errorf("title is %q, want %q", findings[1].Title, want)
	}
}
