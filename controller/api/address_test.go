package api

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// What a stranger writes into X-Forwarded-For must never become their address.
func TestAddressOf(t *testing.T) {
	t.Parallel()
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd00::/8")}}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.1:99", nil, "192.0.2.1"},
		{"a stranger forges", "192.0.2.1:99", []string{"198.51.100.1"}, "192.0.2.1"},
		{"a proxy says nothing", "10.0.0.1:99", nil, "10.0.0.1"},
		{"a proxy", "10.0.0.1:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a stranger forges through a proxy", "10.0.0.1:99", []string{"203.0.113.5, 198.51.100.1"}, "198.51.100.1"},
		{"a stranger forges a proxy's address", "10.0.0.1:99", []string{"10.0.0.9, 198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "10.0.0.1:99", []string{"203.0.113.5, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"two headers", "10.0.0.1:99", []string{"203.0.113.5", "198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		{"nonsense", "10.0.0.1:99", []string{"198.51.100.1, <script>"}, "10.0.0.1"},
		{"nonsense before a proxy", "10.0.0.1:99", []string{"<script>, 10.0.0.2"}, "10.0.0.2"},
		{"with a port", "127.0.0.1:99", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6", "[fd00::1]:99", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 with a port", "[fd00::1]:99", []string{"[2001:db8::7]:80"}, "2001:db8::7"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:99", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"proxies alone", "10.0.0.1:99", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"without end", "10.0.0.1:99", []string{"198.51.100.1," + strings.Repeat("10.0.0.2,", 5000) + "10.0.0.2"}, "10.0.0.2"},
		{"the local socket", "@", []string{"198.51.100.1"}, "local"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.peer
		for _, f := range tt.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := s.addressOf(r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
