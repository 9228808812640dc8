package install

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Cert is the certificate that the node's API shows.
type Cert struct {
	Name        string // one that it is for
	CA          string // PEM of the authority to trust; empty when that is one that everybody knows
	Fingerprint string // sha256:<hex>
}

// Where Proxmox keeps certificates. One that an operator has put there comes before the cluster's own.
const (
	customCert  = "/etc/pve/local/pveproxy-ssl.pem"
	clusterCert = "/etc/pve/local/pve-ssl.pem"
	clusterCA   = "/etc/pve/pve-root-ca.pem"
)

// certificate finds what the API shows, and by what the controller will know it: the cluster's authority, so that a renewal breaks
// nothing, else a self-signed certificate itself, else the authorities that everybody knows.
func (h *Host) certificate(node string) (Cert, error) {
	path := customCert
	chain, err := h.certs(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = clusterCert
		chain, err = h.certs(path)
	}
	if err != nil {
		return Cert{}, fmt.Errorf("cannot read the API's certificate: %w", err)
	}
	leaf := chain[0]
	sum := sha256.Sum256(leaf.Raw)
	c := Cert{Name: nameOf(leaf, node), Fingerprint: "sha256:" + hex.EncodeToString(sum[:])}
	switch now := h.now(); {
	case c.Name == "":
		return c, fmt.Errorf("cannot use the API's certificate: %s is for no name; make it anew with: pvecm updatecerts --force", path)
	case now.After(leaf.NotAfter):
		return c, fmt.Errorf("cannot use the API's certificate: %s ended on %s; renew it, with pvecm updatecerts --force where it is the cluster's own", path, leaf.NotAfter.Format(time.DateOnly))
	}
	roots := x509.NewCertPool()
	if cas, err := h.certs(clusterCA); err == nil {
		roots.AddCert(cas[0])
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.Name, CurrentTime: h.now()}); err == nil {
			c.CA = pemOf(cas[0])
			return c, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("cannot read the cluster's authority: %w", err)
	}
	if leaf.CheckSignatureFrom(leaf) == nil || string(leaf.RawIssuer) == string(leaf.RawSubject) {
		c.CA = pemOf(leaf)
	}
	return c, nil
}

// nameOf is a name that the certificate is for: the node's own where it has one, and no loopback's.
func nameOf(leaf *x509.Certificate, node string) string {
	var other string
	for _, n := range leaf.DNSNames {
		switch {
		case strings.HasPrefix(n, node+"."):
			return n
		case n == "localhost" || strings.HasPrefix(n, "*"):
		case other == "" || n == node:
			other = n
		}
	}
	for _, ip := range leaf.IPAddresses {
		if other == "" && !ip.IsLoopback() {
			other = ip.String()
		}
	}
	return other
}

func (h *Host) certs(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(h.at(path))
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for {
		var b *pem.Block
		if b, raw = pem.Decode(raw); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return out, nil
}

func pemOf(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}
