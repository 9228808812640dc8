package scheduler

import (
	"slices"
	"strings"
)

const selfHosted = "self-hosted"

// The labels that GitHub gives every runner by itself, by the bit that stands for each. A job that
// asks for one asks for a platform, not for a label that somebody must have listed.
var (
	osBits   = map[string]uint8{"linux": 1, "windows": 2, "macos": 4}
	archBits = map[string]uint8{"x64": 1, "arm": 2, "arm64": 4}
)

// otherBit stands for a platform that GitHub has no label for: known, and none of the above.
const otherBit uint8 = 1 << 7

// words is a list of labels, normalised and taken apart.
type words struct {
	own        []string // all but the implied ones; sorted, none twice
	os, arch   uint8    // the platforms that implied labels name
	platform   []string // those labels themselves, sorted
	selfHosted bool
}

// normalise is the form in which labels are compared: GitHub ignores case, people add spaces.
func normalise(label string) string {
	return strings.ToLower(strings.TrimSpace(label))
}

// parseLabels normalises labels and sets the implied ones apart. Empty labels are dropped.
func parseLabels(labels []string) words {
	var w words
	for _, l := range labels {
		l = normalise(l)
		switch {
		case l == "":
		case l == selfHosted:
			w.selfHosted = true
		case osBits[l] != 0:
			w.os |= osBits[l]
			w.platform = append(w.platform, l)
		case archBits[l] != 0:
			w.arch |= archBits[l]
			w.platform = append(w.platform, l)
		default:
			w.own = append(w.own, l)
		}
	}
	w.own = sortedSet(w.own)
	w.platform = sortedSet(w.platform)
	return w
}

func sortedSet(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// hosted reports whether GitHub's own machines serve such a job: it does not ask for a
// self-hosted runner, and every label of its own names an image of theirs.
func (w words) hosted() bool {
	if w.selfHosted || len(w.own) == 0 {
		return false
	}
	for _, l := range w.own {
		if !hostedLabel(l) {
			return false
		}
	}
	return true
}

// hostedLabel knows the form of GitHub's image labels: ubuntu-latest, ubuntu-24.04-arm,
// ubuntu-slim, windows-2025, macos-15-xlarge. A name such as ubuntu-gpu is somebody's own.
func hostedLabel(l string) bool {
	family, version, ok := strings.Cut(l, "-")
	if !ok || (family != "ubuntu" && family != "windows" && family != "macos") {
		return false
	}
	version, _, _ = strings.Cut(version, "-")
	return version == "latest" || version == "slim" || (version != "" && version[0] >= '0' && version[0] <= '9')
}

// osName is GitHub's word for an operating system that is written in any usual way.
func osName(os string) string {
	switch os = normalise(os); os {
	case "darwin", "osx":
		return "macos"
	default:
		return os
	}
}

// archName is GitHub's word for an architecture that is written in any usual way.
func archName(arch string) string {
	switch arch = normalise(arch); arch {
	case "amd64", "x86_64", "x86-64":
		return "x64"
	case "aarch64", "arm64v8":
		return "arm64"
	case "armhf", "armv6l", "armv7", "armv7l":
		return "arm"
	default:
		return arch
	}
}

// platformBits is what a pool says of one half of its platform: its field when it is set, else its
// labels. None set means that it says nothing.
func platformBits(field string, bits map[string]uint8, labels uint8) uint8 {
	switch {
	case field == "":
		return labels
	case bits[field] != 0:
		return bits[field]
	default:
		return otherBit
	}
}

// contradicts reports whether a job's platform labels rule out what is known of a pool.
func contradicts(pool, job uint8) bool { return pool != 0 && job&^pool != 0 }
