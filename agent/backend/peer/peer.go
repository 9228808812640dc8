// Package peer finds out which local process serves a unix socket and what that process may
// do. A container engine hands its own limits down to the containers it starts, so what the
// engine may do decides what may be asked of it, whoever the agent is.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is the one behind a socket.
type Process struct {
	PID          int
	UID          int    // effective, as this process's user namespace sees it
	Capabilities uint64 // effective set
	MaxFiles     uint64 // hard limits; 0 is none
	MaxProcesses uint64
}

// ErrUnseen says that the process cannot be looked at: it is on the far side of a proxy, in
// another PID namespace or of another user.
var ErrUnseen = errors.New("the process behind the socket cannot be seen")

// Of asks the kernel which process listens on the unix socket at path.
func Of(ctx context.Context, path string) (Process, error) {
	var d net.Dialer
	conn, err := d.DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return Process{}, fmt.Errorf("cannot reach %s: %w", path, err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return Process{}, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Process{}, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	if credErr != nil {
		return Process{}, fmt.Errorf("cannot ask who serves %s: %w", path, credErr)
	}
	if cred.Pid <= 0 {
		return Process{}, ErrUnseen
	}
	return Read(int(cred.Pid))
}

// Read looks at process pid.
func Read(pid int) (Process, error) {
	p := Process{PID: pid}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Process{}, fmt.Errorf("%w: %w", ErrUnseen, err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return Process{}, fmt.Errorf("%w: %w", ErrUnseen, err)
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if fields := strings.Fields(ids); len(fields) > 1 { // real, effective, …
				if p.UID, err = strconv.Atoi(fields[1]); err != nil {
					return Process{}, fmt.Errorf("cannot read the user of process %d: %w", pid, err)
				}
			}
		}
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			if p.Capabilities, err = strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err != nil {
				return Process{}, fmt.Errorf("cannot read the capabilities of process %d: %w", pid, err)
			}
		}
	}
	p.MaxFiles = hardLimit(string(limits), "Max open files")
	p.MaxProcesses = hardLimit(string(limits), "Max processes")
	return p, nil
}

// MayRaiseLimits says whether the process may give its children more than it has itself.
func (p Process) MayRaiseLimits() bool {
	return p.Capabilities&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// hardLimit reads one row of /proc/pid/limits: name, soft, hard, unit.
func hardLimit(limits, name string) uint64 {
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if fields := strings.Fields(rest); len(fields) >= 2 {
			n, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0 // unlimited
			}
			return n
		}
	}
	return 0
}
