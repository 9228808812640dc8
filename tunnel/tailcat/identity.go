package tailcat

import (
	"fmt"
	"strings"

	upstream "github.com/tailscale/tailcat"
	"tailscale.com/tailcfg"
	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
)

// Prefix is how every address of this transport begins.
const Prefix = "tc"

// Identity is a private key: a server's, or a host's.
type Identity struct{ private key.NodePrivate }

// NewIdentity makes a key pair.
func NewIdentity() Identity { return Identity{key.NewNode()} }

// ParseIdentity reads what Secret wrote.
func ParseIdentity(secret string) (Identity, error) {
	var i Identity
	if err := i.private.UnmarshalText([]byte(strings.TrimSpace(secret))); err != nil || i.private.IsZero() {
		// The cause is left out: it quotes what it could not read.
		return Identity{}, fmt.Errorf("cannot read a tunnel's private key: %w", tunnel.ErrAddress)
	}
	return i, nil
}

// Secret is the private key as text, to keep sealed or to hand to one host.
func (i Identity) Secret() string {
	b, err := i.private.MarshalText()
	if err != nil {
		panic(err) // a key always marshals
	}
	return string(b)
}

// Public is the public key as text.
func (i Identity) Public() string { return i.private.Public().String() }

// String keeps the private key out of logs.
func (i Identity) String() string { return i.Public() }

// GoString is String.
func (i Identity) GoString() string { return i.Public() }

func parsePublic(s string) (key.NodePublic, error) {
	var k key.NodePublic
	if err := k.UnmarshalText([]byte(strings.TrimSpace(s))); err != nil || k.IsZero() {
		return k, fmt.Errorf("cannot read the public key %q: %w", s, tunnel.ErrAddress)
	}
	return k, nil
}

func addressOf(i Identity, region *tailcfg.DERPRegion) string {
	info := upstream.ConnInfo{
		ServerPublic:      upstream.NodePublic{NodePublic: i.private.Public()},
		ServerDiscoPublic: upstream.DiscoPublicForNode(i.private),
		Region:            []*tailcfg.DERPRegion{region},
	}
	return string(info.ConnBlob())
}

// parseAddress refuses everything that would make a client ask the vendor for the way, or trust
// a relay by less than its certificate.
func parseAddress(s string) (upstream.ConnInfo, error) {
	s = strings.TrimSpace(s)
	info, err := upstream.ParseConnBlob(upstream.ConnBlob(s))
	if err != nil {
		return info, fmt.Errorf("cannot read the tunnel's address: %w", tunnel.ErrAddress)
	}
	if info.ServerPublic.IsZero() || info.ServerDiscoPublic.IsZero() || len(info.Region) != 1 {
		return info, fmt.Errorf("cannot use the tunnel's address: %w: it does not say which relay to use", tunnel.ErrAddress)
	}
	if err := relay.CheckRegion(info.Region[0]); err != nil {
		return info, fmt.Errorf("cannot use the tunnel's address: %w: %w", tunnel.ErrAddress, err)
	}
	return info, nil
}

// CheckAddress says whether a client would accept the address.
func CheckAddress(s string) error {
	_, err := parseAddress(s)
	return err
}
