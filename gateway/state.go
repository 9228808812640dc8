package gateway

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// identityFile holds what the gateway is known by.
const identityFile = "identity"

// maxState bounds a file of the state directory, in bytes.
const maxState = 1 << 20

// State is the gateway's folder. Only its owner can look into it, and one process at a time uses it.
type State struct {
	dir  string
	lock *os.File
}

// OpenState makes the folder where there is none, and refuses one that others can read or write, or that another gateway uses.
func OpenState(dir string) (*State, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make the state directory: %w", err)
	}
	s := &State{dir: dir}
	// The folder itself may be a link, as systemd makes one for a service; what is in it may not.
	folder, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = private(folder, true)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the state directory: %w", err)
	}
	s.dir = folder
	if s.lock, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600); err != nil {
		return nil, fmt.Errorf("cannot use the state directory: %w", err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = s.lock.Close() // nothing was locked
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot use the state directory: another gateway runs with %s; stop it, or give this one another --state-dir", dir)
		}
		return nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	return s, nil
}

// Close lets another gateway use the folder.
func (s *State) Close() error { return s.lock.Close() }

// private refuses what anybody but this user can open.
func private(path string, folder bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	kind, want := info.Mode().IsRegular(), fs.FileMode(0o600)
	if folder {
		kind, want = info.IsDir(), 0o700
	}
	if !kind {
		return fmt.Errorf("%s is not what belongs there: move it away", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("others can open %s (mode %04o): whoever did may have the gateway's identity; if nobody did, chmod %04o %s", path, perm, want, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d and not to this process's: run as its owner, or give it to this one", path, st.Uid)
	}
	return nil
}

// Read returns a file of the folder; fs.ErrNotExist when there is none. It refuses one that others can open.
func (s *State) Read(name string) ([]byte, error) {
	path := filepath.Join(s.dir, name)
	if err := private(path, false); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxState))
}

// Write replaces a file of the folder, so that a crash leaves the old one or the new one.
func (s *State) Write(name string, data []byte) error {
	f, err := os.CreateTemp(s.dir, "."+name+".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(s.dir, name))
}

// Identity returns what the gateway is known by, made once.
func (s *State) Identity(create func() ([]byte, error)) ([]byte, error) {
	id, err := s.Read(identityFile)
	switch {
	case err == nil && len(id) > 0:
		return id, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read the gateway's identity: %w", err)
	case err == nil:
		return nil, fmt.Errorf("cannot read the gateway's identity: %s is empty; remove it, and connect the gateway again", filepath.Join(s.dir, identityFile))
	}
	if id, err = create(); err != nil {
		return nil, fmt.Errorf("cannot make the gateway's identity: %w", err)
	}
	if err := s.Write(identityFile, id); err != nil {
		return nil, fmt.Errorf("cannot keep the gateway's identity: %w", err)
	}
	return id, nil
}
