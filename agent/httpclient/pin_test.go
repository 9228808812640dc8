package httpclient_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// authority issues certificates in tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{}
	a.cert, a.key = a.make(t, x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	return a
}

// make issues a certificate, or makes the authority's own when there is none yet.
func (a authority) make(t *testing.T, tmpl x509.Certificate, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.SerialNumber, tmpl.NotBefore, tmpl.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-2*time.Hour), time.Now().Add(life)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = &tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

func (a authority) pin() string {
	sum := sha256.Sum256(a.cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve serves a controller with a certificate for ip, and sends those certificates along.
func (a authority) serve(t *testing.T, ip string, life time.Duration, along ...*x509.Certificate) string {
	t.Helper()
	c, key := a.make(t, x509.Certificate{IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, life)
	pair := tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
	for _, x := range along {
		pair.Certificate = append(pair.Certificate, x.Raw)
	}
	srv := httptest.NewUnstartedServer(protocol.Handler(&scripted{}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestOnlyThePinnedAuthorityIsTrusted(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	for _, tt := range []struct {
		name, url, pin, say string
	}{
		{name: "the pinned authority", url: ours.serve(t, "127.0.0.1", time.Hour, ours.cert), pin: ours.pin()},
		{name: "another authority", url: others.serve(t, "127.0.0.1", time.Hour, others.cert), pin: ours.pin(), say: "another machine answers"},
		{name: "another that shows ours as well", url: others.serve(t, "127.0.0.1", time.Hour, others.cert, ours.cert), pin: ours.pin(), say: "another machine answers"},
		{name: "the authority is not sent along", url: ours.serve(t, "127.0.0.1", time.Hour), pin: ours.pin(), say: "another machine answers"},
		{name: "a certificate for another machine", url: ours.serve(t, "192.0.2.9", time.Hour, ours.cert), pin: ours.pin(), say: "public_url"},
		{name: "one that has expired", url: ours.serve(t, "127.0.0.1", -time.Hour, ours.cert), pin: ours.pin(), say: "clocks"},
		{name: "no pin", url: ours.serve(t, "127.0.0.1", time.Hour, ours.cert), say: "--ca-pin"},
	} {
		_, err := dial(t, httpclient.Options{Address: tt.url, Pin: tt.pin}).Poll(t.Context(), cred, 0)
		if tt.say == "" && err != nil || tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.say)
		}
	}
}

func TestAPortWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(protocol.Handler(&scripted{}))
	defer srv.Close()
	address := strings.Replace(srv.URL, "http:", "https:", 1)
	if _, err := dial(t, httpclient.Options{Address: address}).Poll(t.Context(), cred, 0); err == nil || !strings.Contains(err.Error(), "speaks no TLS") {
		t.Error(err)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	good := "sha256:" + strings.Repeat("0a", 32)
	for pin, ok := range map[string]bool{
		good: true, strings.ToUpper(good): false, "sha256:" + strings.Repeat("0A", 32): true, " " + good + "\n": true,
		good + "00": false, good[:len(good)-1]: false, strings.TrimPrefix(good, "sha256:"): false, "sha256:" + strings.Repeat("zz", 32): false,
	} {
		p, err := httpclient.ParsePin(pin)
		if (err == nil) != ok || ok && p.String() != good {
			t.Errorf("%q: %v, %v", pin, p, err)
		}
	}
	for name, o := range map[string]httpclient.Options{
		"over plain HTTP": {Address: "http://127.0.0.1", Pin: good}, "and a CA": {Address: "https://x", Pin: good, CA: []byte("x")}, "no pin at all": {Address: "https://x", Pin: "x"},
	} {
		if _, err := httpclient.New(o); err == nil {
			t.Errorf("a pin %s was accepted", name)
		}
	}
}
