package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// StatusFile is where a running gateway says how it is, in its state directory.
const StatusFile = "status.json"

// Word says in one word how a gateway is.
type Word string

// The words.
const (
	Starting Word = "starting" // not reachable through the tunnel yet
	Ready    Word = "ready"
	Failing  Word = "failing" // reachable, and its target does not answer
	Stopped  Word = "stopped"
)

// Status is how a gateway is.
type Status struct {
	Status Word   `json:"status"`
	Detail string `json:"detail,omitempty"` // what is the matter, and what to do
	// Address is how the controller reaches the gateway through the tunnel. It gives nobody access.
	Address string    `json:"address,omitempty"`
	Target  string    `json:"target"`
	Since   time.Time `json:"since"` // of Status
	PID     int       `json:"pid"`
	Counts
}

// ReadStatus reads what a gateway with that state directory has said of itself; Stopped when it has said nothing.
func ReadStatus(dir string) (Status, error) {
	raw, err := os.ReadFile(filepath.Join(dir, StatusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Status{Status: Stopped}, nil
	} else if err != nil {
		return Status{}, fmt.Errorf("cannot read how the gateway is: %w", err)
	}
	var s Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return Status{}, fmt.Errorf("cannot read how the gateway is: %w", err)
	}
	return s, nil
}

// of is what the counts say of a gateway that is reachable.
func of(c Counts, target string) (Word, string) {
	if c.TargetError == "" {
		return Ready, ""
	}
	return Failing, fmt.Sprintf("%s does not answer (%s): is its service running?", target, c.TargetError)
}
