package httpclient

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const pinPrefix = "sha256:"

// Pin is the hash of an authority's public key.
type Pin [sha256.Size]byte

// ParsePin reads sha256:<64 hex digits>, as `zoomies join-token` prints it.
func ParsePin(text string) (Pin, error) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), pinPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != sha256.Size {
		return Pin{}, fmt.Errorf("cannot read the pin %.80q: it must be sha256: and 64 hex digits, as `zoomies join-token` prints it", text)
	}
	return Pin(raw), nil
}

// String is the form that ParsePin reads.
func (p Pin) String() string { return pinPrefix + hex.EncodeToString(p[:]) }

func (p Pin) fits(c *x509.Certificate) bool { return sha256.Sum256(c.RawSubjectPublicKeyInfo) == p }

// pinError says that the controller's certificate does not come from the pinned authority.
type pinError struct{ want Pin }

func (e pinError) Error() string {
	return "its certificate does not come from the pinned authority " + e.want.String()
}

// trustIn has connections trust what the pinned authority has issued for host, and nothing else. The authority is found in what the
// other side sends: its place there proves nothing, that the certificate was signed with its key does.
func (p Pin) trustIn(conf *tls.Config, host string) {
	conf.InsecureSkipVerify = true // VerifyConnection verifies instead, also when a session is resumed
	conf.VerifyConnection = func(cs tls.ConnectionState) error { return p.verify(cs.PeerCertificates, host) }
}

func (p Pin) verify(chain []*x509.Certificate, host string) error {
	if len(chain) == 0 {
		return errors.New("the controller shows no certificate")
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, c := range chain {
		if p.fits(c) {
			roots.AddCert(c)
			found = true
		} else {
			between.AddCert(c)
		}
	}
	if !found {
		return pinError{p}
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: time.Now()})
	return err
}

// advise adds to an error of TLS what to do about it.
func (c *Client) advise(err error) error {
	var unknown x509.UnknownAuthorityError
	var pin pinError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &pin), errors.As(err, &unknown) && c.pinned:
		return fmt.Errorf("%w: either another machine answers at %s, or the controller has a new authority: make a join token there, and compare the pin that is printed with it",
			err, c.base.Host)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: if the controller has an authority of its own, give its pin with --ca-pin (`zoomies join-token` prints it there), or its certificate with --ca-file", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: use an address that the certificate is for, or set public_url on the controller to this one", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: compare the clocks of both machines; the certificate may have to be renewed on the controller", err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return fmt.Errorf("%w: what answers at %s speaks no TLS: is that the controller's port, and is tls.mode on?", err, c.base.Host)
	}
	return err
}
