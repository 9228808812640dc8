package main

import (
	"os"

	"github.com/zoomies-fleet/zoomies/agent/backend/process"
)

// runShim turns this process into the supervisor of a process runner, when the process backend started it as one. It comes before
// everything else: a supervisor outlives the agent and needs nothing of it.
func runShim() {
	if len(os.Args) > 1 && os.Args[1] == process.ShimVerb {
		os.Exit(process.ShimMain(os.Args[2:]))
	}
}
