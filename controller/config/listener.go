package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Proof is what the listener proves itself with.
type Proof string

// The proofs.
const (
	NoTLS     Proof = "off"   // plain HTTP
	FromFiles Proof = "files" // the certificate and the key that the settings name
	OwnCA     Proof = "own"   // a certificate from an authority that the controller makes
)

// The words of tls.mode.
const (
	modeAuto  = "auto"
	modeFiles = "files"
	modeOff   = "off"
)

// Serves says what the listener proves itself with: with tls.mode auto the files that are named, else an authority of the controller's
// own for all but the loopback.
func (c *Config) Serves() Proof {
	switch {
	case c.TLS.Mode == modeOff:
		return NoTLS
	case c.TLS.Mode == modeFiles, c.TLS.CertFile != "", c.TLS.KeyFile != "":
		return FromFiles
	case c.OnLoopback():
		return NoTLS
	}
	return OwnCA
}

// OnLoopback says whether only this machine can reach the listener.
func (c *Config) OnLoopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && loopback(host)
}

// Proxies are the networks of http.trusted_proxies.
func (c *Config) Proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.HTTP.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if err != nil && !strings.Contains(text, "/") {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil {
				p = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %q in http.trusted_proxies: write an address or a network, such as 10.0.0.0/8", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func checkProxies(c *Config, _ machine) []Finding {
	all, err := c.Proxies()
	if err != nil {
		return []Finding{{
			Severity: Error, Code: CodeProxiesInvalid, Key: "http.trusted_proxies",
			Title: "http.trusted_proxies holds what is no network.",
			Why:   err.Error() + ".",
			Fix:   "Write the addresses or networks of the proxies, such as 127.0.0.1 or 10.0.0.0/8.",
		}}
	}
	for _, p := range all {
		if p.Bits() == 0 {
			return []Finding{{
				Severity: Warning, Code: CodeProxiesAll, Key: "http.trusted_proxies",
				Title: "Every address counts as a proxy.",
				Why:   "Whoever asks can say from where: limits on failed sign-ins no longer hold, and the audit log shows what they wrote.",
				Fix:   "Name the addresses of the proxies alone.",
			}}
		}
	}
	return nil
}
