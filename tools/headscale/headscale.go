//go:build tools

// Package headscale builds Headscale from its module, for the tests of tunnel/tailnet.
//
//	go build -o headscale github.com/juanfont/headscale/cmd/headscale
//
// It is a module of its own: what Headscale needs is older than what the fleet does.
package headscale

import _ "github.com/juanfont/headscale/cmd/headscale" // build only
