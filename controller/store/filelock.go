package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// lockOwner is what a lock file says of the process that holds it.
type lockOwner struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// maxLockFile bounds what is read of a lock file, in bytes.
const maxLockFile = 4096

// LockFile takes the advisory lock beside the database at path (<path>.lock), which keeps a
// second controller on this machine out. The kernel drops it however the process ends, so a
// killed controller leaves nothing to clean up. When another process has it, the error wraps
// ErrLeaseHeld and names host and process. release gives it up; the file stays.
func LockFile(path string) (release func() error, err error) {
	name := path + ".lock"
	lock := flock.New(name, flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock the database: %w", err)
	}
	if !locked {
		_ = lock.Close()
		return nil, fmt.Errorf("cannot lock the database: %w: %s; stop it first, or start with --takeover if it is known to be gone", ErrLeaseHeld, readLockOwner(name))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	raw, err := json.Marshal(lockOwner{Host: host, PID: os.Getpid()})
	if err == nil {
		err = os.WriteFile(name, append(raw, '\n'), 0o600)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("cannot lock the database: %w", err)
	}
	return lock.Close, nil
}

// readLockOwner says who holds a lock, as far as the file tells.
func readLockOwner(name string) string {
	raw, err := os.ReadFile(name)
	var owner lockOwner
	if err != nil || len(raw) > maxLockFile || json.Unmarshal(bytes.TrimSpace(raw), &owner) != nil || owner.PID == 0 {
		return "a process that has not said who it is"
	}
	return Holder{Host: owner.Host, PID: owner.PID}.who()
}
