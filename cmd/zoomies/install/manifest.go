package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Kind says what a thing is, and so how it is removed.
type Kind string

// The kinds of things.
const (
	AFile   Kind = "file"
	AFolder Kind = "folder"  // with all that is in it
	Inside  Kind = "content" // what is in a folder that was there before
	AUser   Kind = "user"
	Linger  Kind = "linger" // a user's services run without a session
	AUnit   Kind = "unit"   // enabled or started
)

// Thing is something that init has made on the machine.
type Thing struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

// Manifest is what init has made. Each thing is written down before it is made.
type Manifest struct {
	Made    []Thing `json:"made"`
	DataDir string  `json:"data_dir"`
	Backend string  `json:"backend"`
	User    string  `json:"user"`
	UID     int     `json:"uid"`
}

// ManifestFile is where it is kept.
const ManifestFile = "/etc/zoomies/install.json"

func (m *Manifest) made(t Thing) bool { return slices.Contains(m.Made, t) }

// loadManifest reads it; ok says whether there is one.
func loadManifest(path string) (m Manifest, ok bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, false, nil
	} else if err != nil {
		return m, false, fmt.Errorf("cannot read what was installed: %w", err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, false, fmt.Errorf("cannot read what was installed: %s is damaged (%w); nothing was changed", path, err)
	}
	return m, true, nil
}
