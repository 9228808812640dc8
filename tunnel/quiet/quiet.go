// Package quiet keeps tailscale.com from talking to its vendor. Importing it is enough; every
// transport does, before it starts anything.
//
// What is switched off, and how, was found by reading v1.102.5; TestThroughNAT of
// tunnel/tunneltest listens whether it is true.
package quiet

import (
	_ "unsafe" // for go:linkname

	"tailscale.com/envknob"
	_ "tailscale.com/net/dnsfallback" // the list that is emptied below
)

// relays are the vendor's own servers, by address, that the library asks when the name of a
// control server cannot be resolved. It has no setting for that.
//
//go:linkname relays tailscale.com/net/dnsfallback.staticDERPMapJSON
var relays []byte

func init() { //nolint:gochecknoinits // before anything of the library runs, whoever imports it
	envknob.SetNoLogsNoSupport()
	// It would ask the router of the local network to open ports.
	envknob.Setenv("TS_DISABLE_PORTMAPPER", "true")
	relays = []byte(`{"Regions":{}}`)
}
