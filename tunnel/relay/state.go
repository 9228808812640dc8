package relay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"tailscale.com/types/key"
)

// sniName is what clients ask for when they dial the relay by an IP address, so that a new
// address needs no new certificate.
const sniName = "relay.zoomies.internal"

// lifetime of the certificate. Clients trust it by its hash, and an expired one would lock all
// of them out at once.
const lifetime = 50 * 365 * 24 * time.Hour

// State is what makes a relay the same after a restart. Its JSON form holds private keys: keep
// it sealed.
type State struct {
	Certificate []byte   `json:"certificate"` // DER
	TLSKey      []byte   `json:"tls_key"`     // PKCS #8
	Key         string   `json:"key"`         // the relay protocol's own
	Names       []string `json:"names"`       // DNS names it is reached by
}

// NewState makes keys and a self-signed certificate. names are the DNS names that clients will
// dial; IP addresses need not be known.
func NewState(now time.Time, names ...string) (State, error) {
	var s State
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		s.Names = append(s.Names, name)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return State{}, fmt.Errorf("cannot make the relay's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return State{}, fmt.Errorf("cannot make the relay's certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: sniName},
		DNSNames:     append([]string{sniName}, s.Names...),
		NotBefore:    now.Add(-24 * time.Hour), // a rented machine's clock may be behind
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if s.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private); err != nil {
		return State{}, fmt.Errorf("cannot make the relay's certificate: %w", err)
	}
	if s.TLSKey, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		return State{}, fmt.Errorf("cannot make the relay's key: %w", err)
	}
	text, err := key.NewNode().MarshalText()
	if err != nil {
		return State{}, fmt.Errorf("cannot make the relay's key: %w", err)
	}
	s.Key = string(text)
	return s, nil
}

// ParseState reads what Bytes wrote.
func ParseState(b []byte) (State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, errors.New("cannot read the relay's keys: they are not in the form that Zoomies writes")
	}
	if _, err := s.keys(); err != nil {
		return State{}, err
	}
	return s, nil
}

// Bytes is the form to keep. It holds private keys.
func (s State) Bytes() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return b
}

// Pin is what an address holds to trust this relay alone.
func (s State) Pin() string { return fmt.Sprintf("%s%x", pinPrefix, sha256.Sum256(s.Certificate)) }

// covers says whether clients may dial the relay by that name.
func (s State) covers(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(s.Names, host)
}

type keys struct {
	tls  tls.Certificate
	node key.NodePrivate
}

func (s State) keys() (keys, error) {
	var k keys
	private, err := x509.ParsePKCS8PrivateKey(s.TLSKey)
	if err != nil {
		return k, errors.New("cannot read the relay's TLS key")
	}
	if _, err := x509.ParseCertificate(s.Certificate); err != nil {
		return k, errors.New("cannot read the relay's certificate")
	}
	k.tls = tls.Certificate{Certificate: [][]byte{s.Certificate}, PrivateKey: private}
	if err := k.node.UnmarshalText([]byte(s.Key)); err != nil {
		return k, errors.New("cannot read the relay's own key")
	}
	return k, nil
}
