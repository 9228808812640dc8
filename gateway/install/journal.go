package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Kind says what a thing is, and so how it is removed.
type Kind string

// The kinds of things.
const (
	APool   Kind = "pool"
	ARole   Kind = "role"
	AUser   Kind = "user"
	AToken  Kind = "token"
	AGrant  Kind = "grant" // Name is Grant.key
	AFile   Kind = "file"
	AFolder Kind = "folder" // with all that is in it
	AUnit   Kind = "unit"
)

// Thing is something that the installer has made.
type Thing struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

// Journal is what was made. Each thing is written down before it is made, and crossed out after it is removed.
type Journal struct {
	Name string  `json:"name"` // of the connection
	Made []Thing `json:"made"`
	// Posted is the hash of the capability that the connection was posted with.
	Posted string `json:"posted,omitempty"`
}

// Has says whether the installer made t.
func (j *Journal) Has(t Thing) bool { return slices.Contains(j.Made, t) }

func (j *Journal) add(t Thing) bool {
	if j.Has(t) {
		return false
	}
	j.Made = append(j.Made, t)
	return true
}

func (j *Journal) drop(t Thing) {
	j.Made = slices.DeleteFunc(j.Made, func(x Thing) bool { return x == t })
}

// Journal reads it; there says whether there is one.
func (h *Host) Journal() (j Journal, there bool, err error) {
	raw, err := os.ReadFile(h.at(JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return j, false, nil
	} else if err != nil {
		return j, false, fmt.Errorf("cannot read what was installed: %w", err)
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, false, fmt.Errorf("cannot read what was installed: %s is damaged (%w); nothing was changed", JournalFile, err)
	}
	return j, true, nil
}

func (h *Host) keep(j Journal) error {
	raw, err := json.MarshalIndent(j, "", "  ")
	if err == nil {
		err = h.folder(KeepDir, 0o700)
	}
	if err == nil {
		err = h.write(JournalFile, 0o600, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot keep what was installed: %w", err)
	}
	return nil
}
