// Package certs makes and keeps what the controller's listener proves itself with: an authority of its own with short-lived
// certificates below it, or files that somebody else keeps. It must never give a private key away, nor make a new authority where
// one was: agents hold on to it.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// How long certificates live.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	// leafRest is the rest of its life at which a leaf is replaced.
	leafRest = leafLife / 3
	// backdate is how far behind another machine's clock may be.
	backdate = time.Hour
	// look is how often a handshake looks at names and at ages.
	look = time.Minute
)

// PinPrefix begins a pin: the hash's name, then its hex.
const PinPrefix = "sha256:"

// Options make an authority.
type Options struct {
	Dir string // holds ca.crt and ca.key, for the controller's user alone
	// Names returns the names and addresses that a certificate is for, as they are now; it must not wait on a network.
	Names  func() []string
	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil is slog.Default
}

// Authority is an authority of the controller's own, and the certificate that it has issued for the listener. Safe for concurrent use.
type Authority struct {
	o    Options
	cert *x509.Certificate
	key  crypto.Signer

	mu     sync.Mutex
	leaf   *tls.Certificate
	looked time.Time
}

// Open reads the authority in the folder, or makes one where none is, and issues the first certificate. Its errors say what to do.
func Open(o Options) (*Authority, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := &Authority{o: o}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("cannot use the controller's own authority: %w", err)
	}
	if left := a.cert.NotAfter.Sub(o.Now()); left <= 0 {
		return nil, fmt.Errorf("cannot use the controller's own authority: it ended on %s; move %s away for a new one, and give every agent its pin",
			a.cert.NotAfter.Format(time.DateOnly), o.Dir)
	} else if left < 365*24*time.Hour {
		o.Logger.Warn("the controller's own authority ends soon; then every agent needs the pin of a new one", "ends", a.cert.NotAfter)
	}
	leaf, err := a.issue(o.Names())
	if err != nil {
		return nil, err
	}
	a.leaf, a.looked = leaf, o.Now()
	return a, nil
}

func (a *Authority) certFile() string { return filepath.Join(a.o.Dir, "ca.crt") }
func (a *Authority) keyFile() string  { return filepath.Join(a.o.Dir, "ca.key") }

// open reads or makes the key first: the certificate can be made again from it, and the pin is the key's.
func (a *Authority) open() error {
	if err := os.MkdirAll(a.o.Dir, 0o700); err != nil {
		return err
	}
	_, keyErr := os.Stat(a.keyFile())
	_, certErr := os.Stat(a.certFile())
	switch {
	case keyErr == nil && certErr == nil:
		return a.read()
	case !errors.Is(keyErr, os.ErrNotExist) && keyErr != nil:
		return keyErr
	case !errors.Is(certErr, os.ErrNotExist) && certErr != nil:
		return certErr
	case certErr == nil:
		return fmt.Errorf("%s is gone: bring it back from a backup; or remove %s for a new authority, and give every agent its pin", a.keyFile(), a.certFile())
	case keyErr == nil: // the process was killed in between
		key, err := readKey(a.keyFile())
		if err != nil {
			return err
		}
		return a.certify(key)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeWhole(a.keyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return err
	}
	return a.certify(key)
}

func (a *Authority) read() error {
	pair, err := tls.LoadX509KeyPair(a.certFile(), a.keyFile())
	if err != nil {
		return fmt.Errorf("%s and %s do not go together or are damaged (%w): bring both back from a backup", a.certFile(), a.keyFile(), err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return fmt.Errorf("%s is not the certificate of an authority", a.certFile())
	}
	a.cert, a.key = pair.Leaf, key
	return nil
}

func readKey(file string) (crypto.Signer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(raw); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if s, ok := key.(crypto.Signer); ok {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("%s is damaged: bring it back from a backup", file)
}

// certify writes the authority's own certificate.
func (a *Authority) certify(key crypto.Signer) error {
	now := a.o.Now()
	tmpl := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Zoomies fleet authority", Organization: []string{"Zoomies"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	if err := writeWhole(a.certFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return err
	}
	a.key = key
	a.cert, err = x509.ParseCertificate(der)
	return err
}

// issue makes a certificate for these names. It lives in memory alone: the next start makes another.
func (a *Authority) issue(names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	now := a.o.Now()
	end := now.Add(leafLife)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Zoomies controller"}, NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot issue a certificate for %v: %w", names, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The authority goes along, since those who pin it have not seen it.
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// GetCertificate is tls.Config's. It replaces the certificate when a third of its life is left, and when the machine has a name or an
// address that it is not for; where that fails, the one that is there goes on.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.o.Now()
	if now.Sub(a.looked) < look {
		return a.leaf, nil
	}
	a.looked = now
	names := a.o.Names()
	old := a.leaf.Leaf.NotAfter.Sub(now) < leafRest
	if missing := slices.ContainsFunc(names, func(n string) bool { return a.leaf.Leaf.VerifyHostname(n) != nil }); !old && !missing {
		return a.leaf, nil
	}
	leaf, err := a.issue(names)
	if err != nil {
		a.o.Logger.Error("the listener's certificate could not be replaced", "err", err, "ends", a.leaf.Leaf.NotAfter)
		return a.leaf, nil
	}
	a.leaf = leaf
	a.o.Logger.Info("the listener has a new certificate", "ends", leaf.Leaf.NotAfter)
	return leaf, nil
}

// Pin is what an agent knows the authority by: a hash of its public key.
func (a *Authority) Pin() string { return Pin(a.cert) }

// Pin is the hash of a certificate's public key (its SubjectPublicKeyInfo), in the form that agents take.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return PinPrefix + hex.EncodeToString(sum[:])
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // the reader does not fail
	return n.Add(n, big.NewInt(1))
}

// writeWhole writes a file for its owner alone, so that a crash leaves none or all of it.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
