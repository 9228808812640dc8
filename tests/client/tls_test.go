package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/client"
)

// authority is one that signs a server's certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) pin() [32]byte { return sha256.Sum256(a.cert.RawSubjectPublicKeyInfo) }

// serve answers over TLS with a certificate of the authority for that address, and sends the authority's own along.
func (a authority) serve(t *testing.T, ip string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	ts.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw, a.cert.Raw}, PrivateKey: key}}}
	ts.StartTLS()
	t.Cleanup(ts.Close)
	return ts.URL
}

func (a authority) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	pin, wrong := ours.pin(), other.pin()
	here, elsewhere := ours.serve(t, "127.0.0.1"), ours.serve(t, "203.0.113.1")
	for _, tt := range []struct {
		name string
		o    client.Options
		ok   bool
	}{
		{"an unknown authority", client.Options{Server: here}, false},
		{"its file", client.Options{Server: here, CAFile: ours.file(t)}, true},
		{"another's file", client.Options{Server: here, CAFile: other.file(t)}, false},
		{"its pin in hex", client.Options{Server: here, PinSHA256: hex.EncodeToString(pin[:])}, true},
		{"its pin in base64", client.Options{Server: here, PinSHA256: "sha256//" + base64.StdEncoding.EncodeToString(pin[:])}, true},
		{"another's pin", client.Options{Server: here, PinSHA256: hex.EncodeToString(wrong[:])}, false},
		{"its pin for another address", client.Options{Server: elsewhere, PinSHA256: hex.EncodeToString(pin[:])}, false},
		{"its file for another address", client.Options{Server: elsewhere, CAFile: ours.file(t)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := client.New(tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Call(context.Background(), http.MethodGet, "/", nil, nil); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, bad := range []client.Options{
		{Server: here, PinSHA256: "abc"}, {Server: here, CAFile: filepath.Join(t.TempDir(), "none")}, {Server: here, CAFile: ours.file(t), PinSHA256: hex.EncodeToString(pin[:])},
	} {
		if _, err := client.New(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "zoomies-client-*") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`"` + r.Host + `"`)) })} //nolint:gosec // a test's own server
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	c, err := client.New(client.Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Decode[string](t.Context(), c, http.MethodGet, "/", nil, nil); err != nil || got != "local" {
		t.Errorf("got %q, %v", got, err)
	}
}
