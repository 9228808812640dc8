package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/gateway"
)

// Host is the node that is worked on.
type Host struct {
	Root string    // before every path; "" on a node
	Out  io.Writer // what is being done
	// Command runs a command and returns what it prints; nil runs it.
	Command func(ctx context.Context, argv []string) ([]byte, error)
	// Post gives the connection to the controller, with the capability. It may be called again with the same connection.
	Post func(ctx context.Context, capability string, c Connection) error
	// Now is the clock, and Pause waits between two looks; nil are the system's.
	Now   func() time.Time
	Pause func(ctx context.Context, d time.Duration) error
	// Self is the running program; empty finds it.
	Self string
	// point is where a test ends the program.
	point func() error
}

func (h *Host) at(path string) string { return filepath.Join(h.Root, path) }

func (h *Host) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

func (h *Host) pause(ctx context.Context, d time.Duration) error {
	if h.Pause != nil {
		return h.Pause(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) self() (string, error) {
	if h.Self != "" {
		return h.Self, nil
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find this program: %w", err)
	}
	return self, nil
}

// commandTimeout bounds one command: pveum waits for a lock of the cluster's for ten seconds.
const commandTimeout = 2 * time.Minute

func (h *Host) command(ctx context.Context, argv []string) ([]byte, error) {
	if h.Command != nil {
		return h.Command(ctx, argv)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...) // the plan's own words
	c.Env = append(withoutSecrets(os.Environ()), "LC_ALL=C.UTF-8")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w: %s", Quoted(argv), err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

// CapabilityVariable carries the capability to the installer.
const CapabilityVariable = "ZOOMIES_SETUP_TOKEN"

// withoutSecrets keeps the capability from the commands that are run.
func withoutSecrets(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, CapabilityVariable+"=") {
			out = append(out, v)
		}
	}
	return out
}

// Quoted is a command as a shell takes it.
func Quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-", r)
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

func (h *Host) exists(path string) (bool, error) {
	_, err := os.Lstat(h.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (h *Host) folder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(h.at(path), mode); err != nil {
		return err
	}
	return os.Chmod(h.at(path), mode)
}

func (h *Host) write(path string, mode fs.FileMode, data []byte) error {
	return h.replace(path, mode, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// replace writes a file so that a crash leaves the old one or the new one, also while the old one is being run.
func (h *Host) replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	path = h.at(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (h *Host) copySelf(from, path string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	return h.replace(path, 0o755, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
}

// How long the gateway may take to say its address, and then to be let into the controller's relay.
const (
	awaitFor   = 2 * time.Minute
	awaitEvery = 500 * time.Millisecond
)

// await looks at the service until it is as wanted.
func (h *Host) await(ctx context.Context, what string, good func(gateway.Status) bool) (gateway.Status, error) {
	var last gateway.Status
	for waited := time.Duration(0); ; waited += awaitEvery {
		st, err := gateway.ReadStatus(h.at(StateDir))
		if err == nil && good(st) {
			return st, nil
		}
		last = st
		if waited >= awaitFor {
			return st, fmt.Errorf("%s within %s: it is %s %s; see why with: journalctl -u %s", what, awaitFor, last.Status, last.Detail, UnitName)
		}
		if err := h.pause(ctx, awaitEvery); err != nil {
			return st, err
		}
	}
}
