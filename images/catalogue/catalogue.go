// Package catalogue is the list of runner images: which systems there are, which runner is
// pinned in them, what they are called, and when the pin has become too old. It is data in one
// file, catalogue.json, from which the Containerfiles and the offline build are made. It does
// no I/O.
package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Client is a container client in an image, for jobs that build images.
type Client string

// The variants of each image.
const (
	NoClient Client = ""
	Docker   Client = "docker"
	Podman   Client = "podman" // Podman's remote client: it has no daemon and no storage here
)

// Clients are the variants, the plain one first.
func Clients() []Client { return []Client{NoClient, Docker, Podman} }

// Architectures that the runner is pinned for, as Go names them.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Catalogue is the content of catalogue.json.
type Catalogue struct {
	Runner     Release  `json:"runner"`
	Repository string   `json:"repository"` // of the runner images
	Packages   []string `json:"packages"`   // that every runner image has
	Systems    []System `json:"systems"`    // the first is the default
	Daemon     Daemon   `json:"daemon"`
}

// Release is the GitHub Actions runner that the images carry.
type Release struct {
	Version  string             `json:"version"`
	Released Date               `json:"released"`
	Archives map[string]Archive `json:"archives"` // by architecture
}

// Archive is a file of a release. SHA256 is what GitHub's release notes publish for it.
type Archive struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// System is an operating system that there is a runner image of.
type System struct {
	ID       string              `json:"id"` // as pools name it: debian-13
	Title    string              `json:"title"`
	Base     string              `json:"base"`            // what the Containerfile starts from
	Suite    string              `json:"suite,omitempty"` // Debian's name for it; empty: no offline build
	Packages []string            `json:"packages"`        // besides Catalogue.Packages
	Clients  map[Client][]string `json:"clients"`         // packages of each variant
}

// Daemon is the sidecar image that a Podman-first pool builds its images in.
type Daemon struct {
	Reference string   `json:"reference"`
	Packages  []string `json:"packages"`
}

// Date is a day in UTC, in JSON as 2006-01-02.
type Date time.Time

// UnmarshalText reads a day.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		return fmt.Errorf("cannot read a date: %w", err)
	}
	*d = Date(t)
	return nil
}

// Time is the day's first instant.
func (d Date) Time() time.Time { return time.Time(d) }

func (d Date) String() string { return d.Time().Format(time.DateOnly) }

//go:embed catalogue.json
var embedded []byte

// Load returns the catalogue that this program was built with.
func Load() (Catalogue, error) {
	var c Catalogue
	decoder := json.NewDecoder(strings.NewReader(string(embedded)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Catalogue{}, fmt.Errorf("cannot read the image catalogue: %w", err)
	}
	return c, nil
}

// System returns the system of that ID; "" is the default one.
func (c Catalogue) System(id string) (System, error) {
	if id == "" {
		return c.Systems[0], nil
	}
	i := slices.IndexFunc(c.Systems, func(s System) bool { return s.ID == id })
	if i < 0 {
		ids := make([]string, len(c.Systems))
		for n, s := range c.Systems {
			ids[n] = s.ID
		}
		return System{}, fmt.Errorf("there is no runner image for the platform %q; choose one of %s, or give the pool an image of its own",
			id, strings.Join(ids, ", "))
	}
	return c.Systems[i], nil
}

// PackagesOf are the packages of the image of s with client, sorted.
func (c Catalogue) PackagesOf(s System, client Client) []string {
	all := slices.Concat(c.Packages, s.Packages, s.Clients[client])
	slices.Sort(all)
	return slices.Compact(all)
}
