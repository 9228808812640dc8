package client

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// transport makes the connections that the options describe.
func transport(o Options) (http.RoundTripper, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("cannot make a connection: the program's default transport is not Go's own")
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = 0 // a request's own time counts
	if o.Socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{Timeout: 10 * time.Second}
			return d.DialContext(ctx, "unix", o.Socket)
		}
		return t, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case o.CAFile != "" && o.PinSHA256 != "":
		return nil, errors.New("cannot check the server's certificate in two ways: give the authority's file or the hash of its key")
	case o.CAFile != "":
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the server's authority: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot use %s as the server's authority: it holds no PEM certificate", o.CAFile)
		}
	case o.PinSHA256 != "":
		pin, err := parsePin(o.PinSHA256)
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(o.Server)
		if err != nil {
			return nil, fmt.Errorf("cannot read the server's address: %w", err)
		}
		host := u.Hostname() // the connection's own state has no name where the address is a number
		conf.InsecureSkipVerify = true
		conf.VerifyConnection = func(cs tls.ConnectionState) error { return verifyPinned(cs, host, pin) }
	}
	t.TLSClientConfig = conf
	return t, nil
}

// parsePin reads a SHA-256 in hex (with or without colons) or base64.
func parsePin(text string) ([]byte, error) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "sha256:"), "sha256//")
	if raw, err := hex.DecodeString(strings.ReplaceAll(text, ":", "")); err == nil && len(raw) == sha256.Size {
		return raw, nil
	}
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) == sha256.Size {
		return raw, nil
	}
	return nil, errors.New("cannot read the pin: it is the SHA-256 of the authority's public key, in hex or base64")
}

// errPin says that the server's certificate does not come from the pinned authority.
var errPin = errors.New("the server's certificate does not come from the authority whose key is pinned: " +
	"look whether this is the right server, and whether its authority was made anew")

// verifyPinned verifies the server's chain with the pinned certificate of it as the only root. The server sends that one, too.
func verifyPinned(cs tls.ConnectionState, host string, pin []byte) error {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range cs.PeerCertificates {
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		if subtle.ConstantTimeCompare(sum[:], pin) == 1 {
			roots.AddCert(cert)
			found = true
			continue
		}
		others.AddCert(cert)
	}
	if !found || len(cs.PeerCertificates) == 0 {
		return errPin
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, DNSName: host})
	return err
}

// hopeless says that connecting again would end alike.
func hopeless(err error) bool {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	var dns *net.DNSError
	return errors.Is(err, errPin) || errors.As(err, &invalid) || errors.As(err, &host) || errors.As(err, &unknown) || errors.As(err, &verify) ||
		errors.As(err, &dns) && dns.IsNotFound || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}
