package tailnet

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/zoomies-fleet/zoomies/tunnel"
)

// Prefix is how every address of this transport begins.
const Prefix = "tailnet:"

// Address is where a node is: tailnet:<node>@<URL of the control server>.
type Address struct {
	Node    string // the controller's name in the tailnet, a DNS label
	Control string // https URL of Tailscale's or Headscale's control server
}

// String is the form that ParseAddress reads.
func (a Address) String() string { return Prefix + a.Node + "@" + a.Control }

// ParseAddress reads an address.
func ParseAddress(s string) (Address, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), Prefix)
	node, control, at := strings.Cut(rest, "@")
	if !ok || !at || node == "" || strings.ContainsAny(node, "./: ") {
		return Address{}, fmt.Errorf("cannot use the tunnel's address: %w: it must read tailnet:NODE@https://CONTROL-SERVER", tunnel.ErrAddress)
	}
	if err := checkControl(control); err != nil {
		return Address{}, err
	}
	return Address{Node: node, Control: control}, nil
}

func checkControl(control string) error {
	u, err := url.Parse(control)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("cannot use the tailnet's control server: %w: it must be a URL such as https://headscale.example.org", tunnel.ErrAddress)
	}
	return nil
}
