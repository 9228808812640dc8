// Command zoomies-entrypoint is the first process of a runner container. It turns what the
// agent put in the container's environment into a running GitHub Actions runner, and acts as
// the container's init until that runner ends. It uses the standard library only, so that it
// starts in about a millisecond.
//
// Its first act is the line that start latency is measured to.
package main

import (
	"os"
	"time"

	"github.com/zoomies-fleet/zoomies/images/entrypoint/boot"
)

func main() {
	boot.Announce(os.Stdout, time.Now())
	os.Exit(boot.Run(os.Stdout, os.Environ()))
}
