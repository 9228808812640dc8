package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"tailscale.com/tailcfg"
)

const pinPrefix = "sha256-raw:"

// RegionID is the only number a region may have: an address does not carry it, and who reads
// one counts from here.
const RegionID = 1

// Region describes the relay as seen from one side: under which host:port pairs it is dialled,
// in the order to try them.
func (s State) Region(hostPorts ...string) (*tailcfg.DERPRegion, error) {
	if len(hostPorts) == 0 {
		return nil, errors.New("cannot describe a relay without an address: give host:port")
	}
	r := &tailcfg.DERPRegion{RegionID: RegionID, RegionCode: "zoomies", RegionName: "zoomies"}
	for i, hostPort := range hostPorts {
		host, portText, err := net.SplitHostPort(hostPort)
		if err != nil || host == "" {
			return nil, fmt.Errorf("cannot use the relay's address %q: it must be host:port", hostPort)
		}
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("cannot use the relay's address %q: the port must be 1 to 65535", hostPort)
		}
		if !s.covers(host) {
			return nil, fmt.Errorf("cannot use the relay's address %q: its certificate was made for other names: rotate the tunnel's address", hostPort)
		}
		node := &tailcfg.DERPNode{
			Name: strconv.Itoa(i + 1), RegionID: RegionID,
			HostName: host, DERPPort: int(port), STUNPort: -1, CertName: s.Pin(),
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			node.HostName, node.IPv4, node.IPv6 = sniName, "none", "none"
			if ip = ip.Unmap(); ip.Is4() {
				node.IPv4 = ip.String()
			} else {
				node.IPv6 = ip.String()
			}
		}
		r.Nodes = append(r.Nodes, node)
	}
	return r, nil
}

// CheckRegion refuses a region that would make a client dial something unpinned, or anything
// but a relay.
func CheckRegion(r *tailcfg.DERPRegion) error {
	if r.RegionID != RegionID || len(r.Nodes) == 0 {
		return errors.New("it names no relay of its own")
	}
	for _, n := range r.Nodes {
		if !strings.HasPrefix(n.CertName, pinPrefix) || n.InsecureForTests {
			return errors.New("it does not pin its relay's certificate")
		}
		if n.STUNPort >= 0 {
			return errors.New("it asks for STUN, which the fleet does not use")
		}
	}
	return nil
}
