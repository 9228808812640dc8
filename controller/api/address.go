package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxHops bounds how many addresses of X-Forwarded-For are looked at.
const maxHops = 20

// addressOf is the client's address without its port: the peer's, or what a trusted proxy says that it passed on. A peer on the local
// socket has none.
func (s *Server) addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "local"
	}
	peer, err := netip.ParseAddr(host)
	if err != nil || !s.isProxy(peer) {
		return host
	}
	// Each proxy adds whom it heard from at the end. What stands before the last stranger, that stranger may have made up.
	at := peer
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	slices.Reverse(hops)
	for _, hop := range hops[:min(len(hops), maxHops)] {
		a, ok := parseHop(hop)
		if !ok {
			break
		}
		if at = a; !s.isProxy(a) {
			break
		}
	}
	return at.String()
}

// parseHop reads an address, which some proxies write with a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap(), true
	}
	p, err := netip.ParseAddrPort(text)
	return p.Addr().Unmap(), err == nil
}

func (s *Server) isProxy(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
