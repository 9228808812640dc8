package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// Without root, podman starts itself again inside of a user namespace, and the process that we started only waits for that
// one. It does not always pass on the signal that ends it (seen with 4.3), so the second one is ended here as well.

// process is held by a descriptor, so that its number cannot become another's. The zero process is none.
type process struct{ fd int }

// server holds the process that listens on the service's socket, when it is not the one that we started.
func (s *Service) server(started int) process {
	if os.Geteuid() == 0 {
		return process{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p, err := peer.Of(ctx, s.opts.Socket)
	if err != nil || p.PID == started {
		return process{}
	}
	return hold(p.PID, func(args []string) bool { return args[len(args)-1] == "unix://"+s.opts.Socket })
}

// pause holds the process that keeps a user namespace open for a storage of its own: Podman leaves it for its next call.
func (s *Service) pause() process {
	for _, file := range []string{
		filepath.Join(s.opts.RunRoot, "libpod", "pause.pid"),        // Podman 4
		filepath.Join(s.opts.RunRoot, "libpod", "tmp", "pause.pid"), // Podman 5, where RunRoot is XDG_RUNTIME_DIR
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 1 {
			continue
		}
		return hold(pid, func(args []string) bool {
			name := filepath.Base(args[0])
			return name == "catatonit" || strings.HasPrefix(name, "podman")
		})
	}
	return process{}
}

// hold opens a process when its arguments are the expected ones.
func hold(pid int, is func(args []string) bool) process {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return process{} // it is gone
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
	if err != nil || !is(args) {
		_ = unix.Close(fd)
		return process{}
	}
	return process{fd}
}

// end asks the process to end, and kills it after limit.
func (p process) end(limit time.Duration) {
	if p.fd == 0 {
		return
	}
	defer func() { _ = unix.Close(p.fd) }()
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil || p.gone(limit) {
			return
		}
	}
}

// gone says whether the process has ended within limit.
func (p process) gone(limit time.Duration) bool {
	until := time.Now().Add(limit)
	for {
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
