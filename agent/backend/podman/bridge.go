package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	bindings "github.com/containers/podman/v5/pkg/bindings/network"
	"github.com/vishvananda/netlink"

	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// A Linux bridge that nobody gave an address takes the lowest one of its ports, so it changes as containers come and go.
// Every other container then goes on sending to an address that is gone, until its kernel asks again: connections of
// running jobs stand still for up to half a minute. A bridge that was given an address keeps it.

// steadyBridges gives the bridges of a local, rootful engine the address they have.
type steadyBridges struct {
	mu     sync.Mutex
	names  map[string]string // network → interface; "" is not a bridge of ours to touch
	usable *bool             // whether the engine's bridges are in our network namespace
}

// givenAddress is what the kernel says in addr_assign_type of an interface whose address was set (NET_ADDR_SET).
const givenAddress = "3"

// steady settles the bridge that a workload on that network has just been attached to.
func (b *Backend) steady(ctx context.Context, net string, rootless bool) {
	if rootless || net == "host" || net == "none" {
		return
	}
	if net == "bridge" {
		net = "podman" // the engine's default network
	}
	name, err := b.bridge(ctx, net)
	if err == nil && name != "" {
		err = keepAddress(name)
	}
	if err != nil {
		b.log.Debug("cannot keep a bridge's address; connections of running jobs may stall when containers end", "network", net, "err", err)
	}
}

func (b *Backend) bridge(ctx context.Context, net string) (string, error) {
	b.bridges.mu.Lock()
	defer b.bridges.mu.Unlock()
	if b.bridges.usable == nil {
		same, err := sameNetwork(ctx, b.socket)
		if err != nil {
			return "", err
		}
		b.bridges.usable = &same
	}
	if !*b.bridges.usable {
		return "", nil
	}
	if name, ok := b.bridges.names[net]; ok {
		return name, nil
	}
	engine, err := b.dial(ctx)
	if err != nil {
		return "", err
	}
	found, err := bindings.Inspect(engine, net, nil)
	if err != nil {
		return "", fault("inspect network "+net, err)
	}
	name := ""
	if found.Driver == "bridge" {
		name = found.NetworkInterface
	}
	if b.bridges.names == nil {
		b.bridges.names = map[string]string{}
	}
	b.bridges.names[net] = name
	return name, nil
}

// sameNetwork says whether the process behind the socket sees the network interfaces that we see.
func sameNetwork(ctx context.Context, socket string) (bool, error) {
	p, err := peer.Of(ctx, socket)
	if errors.Is(err, peer.ErrUnseen) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	return err == nil && ours == theirs, err
}

// keepAddress sets a bridge's address to what it is, which is what keeps the kernel from changing it.
func keepAddress(name string) error {
	how, err := os.ReadFile(filepath.Join("/sys/class/net", filepath.Base(name), "addr_assign_type"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(how)) == givenAddress {
		return nil
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetHardwareAddr(link, link.Attrs().HardwareAddr)
}
