// Package oom finds in the kernel's log whether the out-of-memory killer struck inside a
// container. Engines say so themselves where they notice; on hybrid cgroups Podman's monitor
// does not, and a job that was killed must not look like a job that failed.
package oom

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Killed says whether the kernel's log has a kill in the cgroup of the container of that id.
// It is an error when the log cannot be read, which needs root on most machines; the log
// holds a bounded past.
func Killed(id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("cannot read the kernel's log: %w", os.NewSyscallError("open", err))
	}
	defer func() { _ = unix.Close(fd) }()
	record := make([]byte, 8<<10) // the kernel gives one whole record for each read
	for {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil // the end
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // a record was overwritten before it was read
		case err != nil:
			return false, fmt.Errorf("cannot read the kernel's log: %w", os.NewSyscallError("read", err))
		case n == 0:
			return false, nil
		}
		if about(record[:n], id) {
			return true, nil
		}
	}
}

// about says whether a record is of a kill in id's cgroup. Only the kernel writes such a
// record's start; what a process is called comes after its cgroups.
func about(record []byte, id string) bool {
	_, text, ok := bytes.Cut(record, []byte(";"))
	if !ok || !bytes.HasPrefix(text, []byte("oom-kill:")) {
		return false
	}
	_, rest, ok := bytes.Cut(text, []byte(",oom_memcg="))
	if !ok {
		return false
	}
	cgroups, _, _ := bytes.Cut(rest, []byte(",task="))
	return bytes.Contains(cgroups, []byte(id))
}
