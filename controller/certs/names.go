package certs

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// nameWait bounds how long a start waits for a resolver.
const nameWait = 2 * time.Second

// MachineNames returns a function for Options.Names: this machine's name, in full too where a resolver knows it, every address of its
// interfaces that others can use, localhost, and what is given besides, such as the host of the public address.
func MachineNames(ctx context.Context, besides ...string) func() []string {
	fixed := []string{"localhost"}
	if host, err := os.Hostname(); err == nil {
		fixed = append(fixed, host)
		ctx, cancel := context.WithTimeout(ctx, nameWait)
		defer cancel()
		if full, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil {
			fixed = append(fixed, strings.TrimSuffix(full, "."))
		}
	}
	fixed = clean(append(fixed, besides...))
	return func() []string { return clean(append(slices.Clone(fixed), addresses()...)) }
}

func addresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return []string{"127.0.0.1", "::1"}
	}
	var out []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() { // which comes and goes with every container
			out = append(out, n.IP.String())
		}
	}
	return out
}

// clean leaves out what no certificate can be for, and what is there twice.
func clean(names []string) []string {
	var out []string
	for _, n := range names {
		n = strings.ToLower(n)
		ip := net.ParseIP(n)
		if n == "" || ip != nil && ip.IsUnspecified() || ip == nil && !isName(n) || slices.Contains(out, n) {
			continue
		}
		out = append(out, n)
	}
	return out
}

// isName says whether a certificate's reader would take it for a host's name.
func isName(n string) bool {
	for label := range strings.SplitSeq(n, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}
