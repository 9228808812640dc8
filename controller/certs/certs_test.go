package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/certs"
)

// machine is a machine whose clock and names a test sets.
type machine struct {
	dir   string
	mu    sync.Mutex
	at    time.Time
	names []string
	log   bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{dir: filepath.Join(t.TempDir(), "tls"), at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), names: []string{"builder", "192.0.2.7"}}
}

func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *machine) step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}

func (m *machine) open() (*certs.Authority, error) {
	return certs.Open(certs.Options{Dir: m.dir, Names: func() []string { return m.names }, Now: m.now, Logger: slog.New(slog.NewTextHandler(&m.log, nil))})
}

func (m *machine) mustOpen(t *testing.T) *certs.Authority {
	t.Helper()
	a, err := m.open()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func leaf(t *testing.T, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *x509.Certificate {
	t.Helper()
	c, err := get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func TestTheAuthorityStays(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.mustOpen(t)
	pin := a.Pin()
	if len(pin) != len("sha256:")+64 || !strings.HasPrefix(pin, "sha256:") {
		t.Errorf("the pin is %q", pin)
	}
	for _, f := range []string{"ca.crt", "ca.key"} {
		if st, err := os.Stat(filepath.Join(m.dir, f)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", f, st, err)
		}
	}
	m.step(400 * 24 * time.Hour)
	if again := m.mustOpen(t); again.Pin() != pin {
		t.Error("a restart made another authority")
	}
	// A kill between the two files leaves the key: the pin is its own.
	if err := os.Remove(filepath.Join(m.dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if again := m.mustOpen(t); again.Pin() != pin {
		t.Error("the certificate was made again from another key")
	}
}

func TestTheCertificateIsForEveryNameAndFromTheAuthority(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c, err := m.mustOpen(t).GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(c.Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, name := range []string{"builder", "192.0.2.7"} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: m.now()}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "elsewhere", Roots: roots, CurrentTime: m.now()}); err == nil {
		t.Error("the certificate is for a name that nobody gave")
	}
	if life := c.Leaf.NotAfter.Sub(m.now()); life != 90*24*time.Hour {
		t.Errorf("it lives for %s", life)
	}
	if life := ca.NotAfter.Sub(m.now()); life != 3650*24*time.Hour || !ca.MaxPathLenZero {
		t.Errorf("the authority lives for %s, and may make others: %v", life, !ca.MaxPathLenZero)
	}
}

func TestTheCertificateIsReplacedInTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.mustOpen(t)
	first := leaf(t, a.GetCertificate)
	m.step(59 * 24 * time.Hour)
	if got := leaf(t, a.GetCertificate); !got.Equal(first) {
		t.Error("it was replaced with more than a third of its life left")
	}
	m.step(2 * 24 * time.Hour)
	second := leaf(t, a.GetCertificate)
	if second.Equal(first) {
		t.Fatal("it was not replaced with less than a third of its life left")
	}
	m.names = append(m.names, "2001:db8::1")
	if got := leaf(t, a.GetCertificate); !got.Equal(second) {
		t.Error("names were looked at twice in one moment")
	}
	m.step(time.Minute)
	third := leaf(t, a.GetCertificate)
	if err := third.VerifyHostname("2001:db8::1"); err != nil {
		t.Error(err)
	}
	m.names = m.names[:1] // an address that went away does no harm
	m.step(time.Minute)
	if got := leaf(t, a.GetCertificate); !got.Equal(third) {
		t.Error("it was replaced although it is for every name")
	}
}

func TestNoNewAuthorityWhereOneWas(t *testing.T) {
	t.Parallel()
	other := newMachine(t)
	other.mustOpen(t)
	strange, err := os.ReadFile(filepath.Join(other.dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(m *machine) error
		say   string
	}{
		"the key is gone":    {func(m *machine) error { return os.Remove(filepath.Join(m.dir, "ca.key")) }, "backup"},
		"another's key":      {func(m *machine) error { return os.WriteFile(filepath.Join(m.dir, "ca.key"), strange, 0o600) }, "backup"},
		"a damaged file":     {func(m *machine) error { return os.WriteFile(filepath.Join(m.dir, "ca.crt"), []byte("x"), 0o600) }, "backup"},
		"its time has ended": {func(m *machine) error { m.step(3651 * 24 * time.Hour); return nil }, "pin"},
	} {
		m := newMachine(t)
		m.mustOpen(t)
		if err := tt.spoil(m); err != nil {
			t.Fatal(err)
		}
		if _, err := m.open(); err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v; want an error that says what to do", name, err)
		}
	}
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	m, other := newMachine(t), newMachine(t)
	m.mustOpen(t)
	other.mustOpen(t)
	cert, key := filepath.Join(m.dir, "ca.crt"), filepath.Join(m.dir, "ca.key")
	f, err := certs.OpenFiles(cert, key, m.now, slog.New(slog.NewTextHandler(&m.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := leaf(t, f.GetCertificate)
	put := func(name string) {
		raw, err := os.ReadFile(filepath.Join(other.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.dir, name+".new"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(m.dir, name+".new"), filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
		m.step(time.Second)
	}
	put("ca.crt")
	if got := leaf(t, f.GetCertificate); !got.Equal(first) || !strings.Contains(m.log.String(), "goes on") {
		t.Errorf("half a change was taken over, or nobody was told:\n%s", m.log.String())
	}
	put("ca.key")
	if got := leaf(t, f.GetCertificate); got.Equal(first) {
		t.Error("the change was not seen")
	}
	if _, err := certs.OpenFiles(cert, cert, nil, nil); err == nil || !strings.Contains(err.Error(), "tls.key_file") {
		t.Errorf("no key: %v", err)
	}
}

func TestMachineNames(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	names := certs.MachineNames(t.Context(), "Zoomies.example.org", "", "0.0.0.0", "not a name", "192.0.2.1")()
	for _, want := range []string{"localhost", "127.0.0.1", strings.ToLower(host), "zoomies.example.org", "192.0.2.1"} {
		if !slices.Contains(names, want) {
			t.Errorf("%v lacks %s", names, want)
		}
	}
	for _, no := range []string{"", "0.0.0.0", "not a name"} {
		if slices.Contains(names, no) {
			t.Errorf("%v has %q", names, no)
		}
	}
}
