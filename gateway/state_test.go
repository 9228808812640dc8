package gateway

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

func runtimeYield() { runtime.Gosched() }

func TestTheIdentityIsMadeOnceAndForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	made := 0
	for range 2 {
		s, err := OpenState(dir)
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.Identity(func() ([]byte, error) { made++; return []byte("private"), nil })
		if err != nil || string(id) != "private" {
			t.Fatalf("%q, %v", id, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, filepath.Join(dir, identityFile): 0o600, filepath.Join(dir, "lock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestAStateDirectoryThatOthersCanOpenIsRefused(t *testing.T) {
	t.Parallel()
	chmod := func(name string, mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, string)
		word  string
	}{
		"a folder for its group":           {chmod("", 0o750), "chmod 0700"},
		"a folder for all":                 {chmod("", 0o711), "chmod 0700"},
		"an identity for all":              {chmod(identityFile, 0o644), "chmod 0600"},
		"an identity for a group to write": {chmod(identityFile, 0o620), "chmod 0600"},
		"an identity elsewhere": {func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, identityFile)
			if err := errors.Join(os.Rename(path, path+".other"), os.Symlink(path+".other", path)); err != nil {
				t.Fatal(err)
			}
		}, "not what belongs there"},
		"an empty identity": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Truncate(filepath.Join(dir, identityFile), 0); err != nil {
				t.Fatal(err)
			}
		}, "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			identity := func() error {
				s, err := OpenState(dir)
				if err != nil {
					return err
				}
				_, err = s.Identity(func() ([]byte, error) { return []byte("private"), nil })
				return errors.Join(err, s.Close())
			}
			if err := identity(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			if err := identity(); err == nil || !strings.Contains(err.Error(), c.word) {
				t.Errorf("got %v, want %q", err, c.word)
			}
		})
	}
}

func TestOneGatewayForAStateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(dir); err == nil || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// scripted is a tunnel that fails as often as it is told, and then listens on what it is given.
type scripted struct {
	fails int
	lns   []net.Listener
	asked []string
}

func (s *scripted) NewIdentity() ([]byte, error) { return []byte("me"), nil }

func (s *scripted) Address(identity []byte) (string, error) {
	return "address-of-" + string(identity), nil
}

func (s *scripted) Listen(_ context.Context, identity []byte) (net.Listener, error) {
	s.asked = append(s.asked, string(identity))
	if s.fails > 0 {
		s.fails--
		return nil, errors.New("no relay")
	}
	ln := s.lns[0]
	s.lns = s.lns[1:]
	return ln, nil
}

func (*scripted) Close() error { return nil }

// broken is a listener that fails.
type broken struct{ net.Listener }

func (broken) Accept() (net.Conn, error) { return nil, errors.New("the tunnel fell") }
func (broken) Close() error              { return nil }

// quiet is a listener that nothing comes from until it is closed.
type quiet struct{ closed chan struct{} }

func (q quiet) Accept() (net.Conn, error) { <-q.closed; return nil, net.ErrClosed }
func (q quiet) Close() error {
	select {
	case <-q.closed:
	default:
		close(q.closed)
	}
	return nil
}
func (q quiet) Addr() net.Addr { return nil }

// A tunnel that cannot be reached at first, and that breaks later, is tried again with the same identity.
func TestAGatewayKeepsTrying(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		tun := &scripted{fails: 3, lns: []net.Listener{broken{}, quiet{make(chan struct{})}}}
		ctx, cancel := context.WithCancel(t.Context())
		ready := 0
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, Options{StateDir: dir, Target: "127.0.0.1:8006", Tunnel: tun, Ready: func() {
				if ready++; ready == 2 {
					cancel()
				}
			}})
		}()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(tun.asked) != 5 || strings.Join(tun.asked, " ") != "me me me me me" {
			t.Errorf("asked as %v", tun.asked)
		}
	})
	st, err := ReadStatus(dir)
	if err != nil || st.Status != Stopped || st.Address != "address-of-me" || st.Target != "127.0.0.1:8006" {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestTheStatusOfARunningGateway(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	ln := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			StateDir: dir, Target: target(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c); _ = c.Close() }),
			Tunnel: &scripted{lns: []net.Listener{ln}}, Ready: func() { ready <- struct{}{} },
		})
	}()
	<-ready
	st, err := ReadStatus(dir)
	if err != nil || st.Status != Ready || st.Address != "address-of-me" || st.PID != os.Getpid() || st.Since.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
	c := dial(t, ln.Addr().String())
	_, _ = c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if st, err = ReadStatus(dir); err != nil || st.Status != Stopped || st.Accepted != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := ReadStatus(t.TempDir()); err != nil || st.Status != Stopped {
		t.Errorf("of none: %+v, %v", st, err)
	}
}
