package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// ServiceOptions of StartService.
type ServiceOptions struct {
	// Root and RunRoot are the storage of images and containers, and of what lives until the
	// machine restarts. Both empty is Podman's own storage. They are made with mode 0700.
	Root, RunRoot string
	// Socket is where the service listens. Its directory is made with mode 0700.
	Socket string
	// Podman is the program; empty looks it up in PATH.
	Podman string
	Logger *slog.Logger
	// Wait bounds how long the service may take until it answers; 0 is 30 seconds.
	Wait time.Duration
}

// Service is a `podman system service` that this process started and keeps alive. It ends
// with this process; the containers that it started do not.
type Service struct {
	opts ServiceOptions
	args []string
	log  *slog.Logger

	stop context.CancelFunc
	done chan struct{} // the supervisor has ended

	mu  sync.Mutex
	pid int // 0 while none runs
}

// StartService starts Podman's API on a socket and returns when it answers.
func StartService(ctx context.Context, opts ServiceOptions) (*Service, error) {
	if opts.Socket == "" {
		return nil, errors.New("cannot start Podman: no socket was given")
	}
	if opts.Podman == "" {
		path, err := exec.LookPath("podman")
		if err != nil {
			return nil, fmt.Errorf("cannot start Podman: it is not installed (run `make deps`): %w", err)
		}
		opts.Podman = path
	}
	if os.Geteuid() != 0 {
		if err := thisMachine().userNamespaces(); err != nil {
			return nil, fmt.Errorf("cannot start Podman: %w", err)
		}
	}
	if opts.Wait <= 0 {
		opts.Wait = 30 * time.Second
	}
	for _, dir := range []string{opts.Root, opts.RunRoot, filepath.Dir(opts.Socket)} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot start Podman: %w", err)
		}
	}
	if err := clearSocket(ctx, opts.Socket); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, args: globalFlags(opts), log: opts.Logger, done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	first := make(chan error, 1)
	go s.supervise(run, first)
	err := s.ready(ctx, first)
	if err == nil && os.Geteuid() != 0 {
		err = try(ctx, opts.Socket, opts.Wait)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start Podman: %w", err), s.Close())
	}
	return s, nil
}

// Args are the global flags that make the plain podman command work on the service's
// containers: podman <Args> ps.
func (s *Service) Args() []string { return slices.Clone(s.args) }

// Env is what the plain podman command should have in its environment.
func (s *Service) Env() []string { return environment(s.opts) }

// Socket is the path that the service listens on.
func (s *Service) Socket() string { return s.opts.Socket }

// PID of the running service, 0 while it is being restarted.
func (s *Service) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// Close stops the service and leaves its containers running.
func (s *Service) Close() error {
	s.stop()
	<-s.done
	if err := os.Remove(s.opts.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove Podman's socket: %w", err)
	}
	return nil
}

// globalFlags fit Podman to the machine. Each storage has a directory of its own for locks
// and events: by default Podman shares /run/libpod among them.
func globalFlags(opts ServiceOptions) []string {
	var args []string
	if opts.Root != "" {
		args = append(args, "--root", opts.Root)
	}
	if opts.RunRoot != "" {
		args = append(args, "--runroot", opts.RunRoot, "--tmpdir", filepath.Join(opts.RunRoot, "libpod"))
	}
	if name := fittingRuntime(); name != "" {
		args = append(args, "--runtime", name)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		args = append(args, "--cgroup-manager", "cgroupfs")
	}
	return args
}

// fittingRuntime is runc where crun, Podman's default, would refuse the machine's version 1
// or hybrid cgroups, and nothing where the default works.
func fittingRuntime() string {
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil || fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return ""
	}
	if _, err := exec.LookPath("runc"); err != nil {
		return ""
	}
	return "runc"
}

func environment(opts ServiceOptions) []string {
	env := append(os.Environ(), "PODMAN_IGNORE_CGROUPSV1_WARNING=1")
	if os.Geteuid() == 0 || os.Getenv("XDG_RUNTIME_DIR") != "" {
		return env
	}
	// Outside of a login session (su, cron) a user's Podman does not know where what lives until the machine restarts
	// belongs, and looks for credentials where it may not.
	dir := fmt.Sprintf("/run/user/%d", os.Geteuid())
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		dir = opts.RunRoot
	}
	if dir != "" {
		env = append(env, "XDG_RUNTIME_DIR="+dir)
	}
	return env
}

// clearSocket removes what a service that was killed left, and refuses to take the place of
// one that lives.
func clearSocket(ctx context.Context, socket string) error {
	if _, err := os.Lstat(socket); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err := connect(ctx, socket)
	if !errors.Is(err, backend.ErrUnavailable) {
		return fmt.Errorf("cannot start Podman: something answers at %s already: use it, or stop it first", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot start Podman: %w", err)
	}
	return nil
}

// supervise runs the service until ctx ends, again and again with growing pauses. The first
// end is told to first.
func (s *Service) supervise(ctx context.Context, first chan<- error) {
	defer close(s.done)
	// The kernel ties the service's life to the thread that starts it (Pdeathsig).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 100*time.Millisecond, 10*time.Second
	for {
		began := time.Now()
		err := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case first <- err:
		default:
		}
		if time.Since(began) > time.Minute {
			pace.Reset()
		}
		wait := pace.NextBackOff()
		s.log.Warn("Podman's service ended and is started again", "error", err, "in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// run is one life of the service.
func (s *Service) run(ctx context.Context) error {
	args := append(s.Args(), "system", "service", "--time=0", "unix://"+s.opts.Socket)
	cmd := exec.Command(s.opts.Podman, args...) //nolint:noctx // stopped below by signal
	cmd.Env = s.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	said := &tail{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second // a conmon that inherited our pipe must not keep us
	_ = os.Remove(s.opts.Socket)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", s.opts.Podman, err)
	}
	s.setPID(cmd.Process.Pid)
	defer s.setPID(0)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		s.server(cmd.Process.Pid).end(stopLimit)
		return fmt.Errorf("podman ended (%w): %s", because(err), said)
	case <-ctx.Done():
	}
	server := s.server(cmd.Process.Pid)
	defer server.end(stopLimit)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-ended: //nolint:errcheck // it was told to end
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-ended //nolint:errcheck // it was killed
	}
	return ctx.Err()
}

// stopLimit is how long the service may take to end its requests.
const stopLimit = 3 * time.Second

var errEndedWell = errors.New("exit code 0")

func because(err error) error {
	if err == nil {
		return errEndedWell
	}
	return err
}

func (s *Service) setPID(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// ready waits until the socket answers, and makes it the owner's alone.
func (s *Service) ready(ctx context.Context, first <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Lstat(s.opts.Socket); err == nil {
			if _, err := connect(ctx, s.opts.Socket); err == nil {
				if err := os.Chmod(s.opts.Socket, 0o600); err != nil {
					return fmt.Errorf("cannot close its socket to others: %w", err)
				}
				return nil
			}
		}
		select {
		case err := <-first:
			return err
		case <-ctx.Done():
			return fmt.Errorf("it did not answer at %s within %s: %w", s.opts.Socket, s.opts.Wait, ctx.Err())
		case <-tick.C:
		}
	}
}

// tail keeps the end of what a program says.
type tail struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - t.limit; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf.Bytes()))
}
