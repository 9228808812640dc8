package demo

import (
	"os"
	"os/exec"
	"strings"
)

// PoolNetwork is the network of the demo's runners: the engine's own, but for one case. pasta, which Podman 5 uses without
// root, gives a container the routes of the machine; on a machine without a default route (one that is offline) nothing
// then leads to the machine itself, where the simulated GitHub is. slirp4netns has a route of its own.
func PoolNetwork() string {
	if os.Geteuid() == 0 {
		return ""
	}
	table, err := os.ReadFile("/proc/net/route")
	if err != nil || defaultRoute(string(table)) {
		return ""
	}
	if _, err := exec.LookPath("slirp4netns"); err != nil {
		return ""
	}
	return "slirp4netns"
}

// defaultRoute says whether the kernel's table of IPv4 routes has one to everywhere: no destination and no mask.
func defaultRoute(table string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return true
		}
	}
	return false
}
