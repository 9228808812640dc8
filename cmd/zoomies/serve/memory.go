package serve

import (
	"os"
	"runtime/debug"
)

// heapGrowth is how much of the live heap may be garbage before it is collected, in percent. Most of a controller's memory is the
// connections of its agents, which stay: with Go's own 100 it would hold as much again of garbage. See docs/performance.md.
const heapGrowth = 50

// KeepSmall has the process of a controller hold less garbage, unless GOGC says otherwise.
func KeepSmall() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
