package config

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Validate names every deviation of c from what is safe: errors first, then warnings, each in
// the registry's order. The defaults yield nothing. It looks at the modes of the files that
// settings name and never at what is in them.
func Validate(c *Config) []Finding { return validate(c, thisMachine()) }

// machine is what Validate asks of the machine, so that a test can be another one.
type machine struct {
	stat func(path string) (fs.FileInfo, error)
	// userSocket is where this user's own Podman socket would be; empty for root.
	userSocket string
}

func thisMachine() machine {
	m := machine{stat: os.Stat}
	if uid := os.Getuid(); uid > 0 {
		m.userSocket = "/run/user/" + strconv.Itoa(uid) + "/podman/podman.sock"
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			m.userSocket = dir + "/podman/podman.sock"
		}
	}
	return m
}

func validate(c *Config, m machine) []Finding {
	var all []Finding
	for _, check := range []func(*Config, machine) []Finding{
		checkFolder, checkListen, checkPublicURL, checkProxies, checkFiles, checkGitHub, checkStart, checkAgent, checkRunnerEnv, checkUnknown,
	} {
		all = append(all, check(c, m)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return rank(a.Severity) - rank(b.Severity)
	})
	return all
}

func rank(s Severity) int {
	if s == Error {
		return 0
	}
	return 1
}

func checkFolder(c *Config, m machine) []Finding {
	var out []Finding
	if info, err := m.stat(c.DataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		out = append(out, Finding{
			Severity: Error, Code: CodeDataDirWritable, Key: "data_dir",
			Title: fmt.Sprintf("Other users can write to %s (mode %04o).", c.DataDir, info.Mode().Perm()),
			Why:   "Whoever can replace the database or its keys owns the fleet.",
			Fix:   "Run chmod go-w " + c.DataDir + ".",
		})
	}
	if c.file == "" {
		return out
	}
	if info, err := m.stat(c.file); err == nil && info.Mode().Perm()&0o022 != 0 {
		out = append(out, Finding{
			Severity: Error, Code: CodeSettingsWritable,
			Title: fmt.Sprintf("Other users can write to %s (mode %04o).", c.file, info.Mode().Perm()),
			Why:   "Whoever can change the settings can change what every runner is given.",
			Fix:   "Run chmod go-w " + c.file + ".",
		})
	}
	return out
}

func checkListen(c *Config, _ machine) []Finding {
	var out []Finding
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		out = append(out, Finding{
			Severity: Error, Code: CodeListenInvalid, Key: "listen",
			Title: fmt.Sprintf("%q is not an address to listen on.", c.Listen),
			Why:   "The controller could not serve webhooks or agents.",
			Fix:   "Write host:port, such as 127.0.0.1:8080.",
		})
		return out
	}
	switch {
	case c.Serves() == FromFiles && (c.TLS.CertFile == "" || c.TLS.KeyFile == ""):
		out = append(out, Finding{
			Severity: Error, Code: CodeTLSIncomplete, Key: "tls.cert_file",
			Title: "tls.cert_file and tls.key_file are not both set.",
			Why:   "TLS needs the certificate and its key.",
			Fix:   "Set both; or neither, with tls.mode auto, to let the controller make a certificate.",
		})
	case c.Serves() == NoTLS && !loopback(host):
		out = append(out, Finding{
			Severity: Warning, Code: CodeListenNoTLS, Key: "tls.mode",
			Title: fmt.Sprintf("The controller listens on %s without TLS.", c.Listen),
			Why:   "Agent tokens and runner credentials cross the network in the clear.",
			Fix:   "Set tls.mode to auto, or listen on 127.0.0.1 behind a proxy that ends TLS.",
		})
	}
	return out
}

func checkPublicURL(c *Config, _ machine) []Finding {
	u, err := url.Parse(c.PublicURL)
	if c.PublicURL == "" || err == nil && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())) {
		return nil
	}
	return []Finding{{
		Severity: Error, Code: CodePublicURLInvalid, Key: "public_url",
		Title: fmt.Sprintf("%.100q is not the address of a controller.", c.PublicURL),
		Why:   "Browsers and GitHub would be sent there, with what proves who they are.",
		Fix:   "Write https://HOST or https://HOST:PORT, without a path. Plain http is for this machine alone.",
	}}
}

// loopback says whether only this machine can reach host. A name other than localhost may
// resolve to anything, so it does not count.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// namedFile is a file that a setting names.
type namedFile struct {
	key, path string
	made      bool // the controller makes it when it is not there
	secret    bool // only the controller's own user may read it
}

// namedFiles lists them; a test holds it to the settings of the kind SecretFile.
func namedFiles(c *Config) []namedFile {
	return []namedFile{
		{key: "tls.cert_file", path: c.TLS.CertFile},
		{key: "tls.key_file", path: c.TLS.KeyFile, secret: true},
		{key: "secrets.key_file", path: c.KeyFile(), secret: true, made: true},
	}
}

func checkFiles(c *Config, m machine) []Finding {
	var out []Finding
	for _, f := range namedFiles(c) {
		if f.path == "" {
			continue
		}
		info, err := m.stat(f.path)
		switch {
		case err != nil && f.made:
		case err != nil:
			out = append(out, Finding{
				Severity: Error, Code: CodeFileUnreadable, Key: f.key,
				Title: fmt.Sprintf("%s cannot be used: %v.", f.key, err),
				Why:   "The controller cannot serve TLS without it.",
				Fix:   "Correct the path, or remove the setting.",
			})
		case f.secret && info.Mode().Perm()&0o077 != 0:
			out = append(out, Finding{
				Severity: Error, Code: CodeSecretExposed, Key: f.key,
				Title: fmt.Sprintf("Other users can use %s (mode %04o).", f.path, info.Mode().Perm()),
				Why:   "Whoever reads it can read what it protects.",
				Fix:   "Run chmod 600 " + f.path + ", and replace the key if others may have read it.",
			})
		}
	}
	return out
}
