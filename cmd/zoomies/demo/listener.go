package demo

import (
	"net"
	"strings"
)

// localOnly accepts connections from this machine alone: its loopback, its own addresses, and the networks of the bridges that
// its containers hang on.
type localOnly struct{ net.Listener }

func (l localOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := c.RemoteAddr().(*net.TCPAddr); ok && local(from.IP) {
			return c, nil
		}
		_ = c.Close() // a stranger: nothing to say
	}
}

func local(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return false
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if ok && (n.IP.Equal(ip) || isBridge(i.Name) && n.Contains(ip)) {
				return true
			}
		}
	}
	return false
}

// isBridge says whether an interface is one that Podman made for its containers.
func isBridge(name string) bool {
	return strings.HasPrefix(name, "podman") || strings.HasPrefix(name, "cni-")
}
