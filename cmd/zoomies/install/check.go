package install

import (
	"fmt"
	"strings"
)

// leastSpace is what a controller and a first image need, in bytes.
const leastSpace = 2 << 30

// check says all that stands in the way, each with what to do. Nothing is changed while anything does.
func check(a Answers, f Facts, m Manifest) []string {
	var out []string
	add := func(stands bool, format string, args ...any) {
		if stands {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(!f.Root, "This changes the machine: run it as root, with sudo.")
	add(!f.Systemd, "systemd does not run here. On such a machine start `zoomies controller` by what it has instead.")
	add(f.Port != nil, "%s cannot be listened on (%v). Stop what uses it, or choose another with --listen.", a.Listen, f.Port)
	add(f.Space < leastSpace, "Only %d MiB are free for %s, and %d MiB are needed. Make room, or choose another folder with --data-dir.",
		f.Space>>20, a.DataDir, leastSpace>>20)
	add(f.DataUsed && !f.Installed, "%s is not empty. Choose another folder with --data-dir, or move what is in it away.", a.DataDir)
	add(f.Installed && m.DataDir != a.DataDir, "Zoomies is installed here with its data in %s. It is not moved: leave --data-dir out.", m.DataDir)
	add(f.Installed && m.Backend != a.Backend, "Zoomies is installed here with the agent %s. To change it, uninstall with --keep-data first.", m.Backend)
	add(f.UserThere && !f.Installed && a.Backend == "podman" && f.UserHome != a.DataDir,
		"There is a user %s already, whose home is %s: Podman would keep its images there. Remove the user, or use that folder as --data-dir.", UserName, f.UserHome)
	add(len(f.Missing) > 0, "This is missing: %s. On Debian: apt-get install podman uidmap passt dbus-user-session; or choose --agent none.",
		strings.Join(f.Missing, ", "))
	add(a.Backend == "docker" && !f.DockerSock, "Docker does not run here: there is no /var/run/docker.sock. Start it, or choose another --agent.")
	return out
}
