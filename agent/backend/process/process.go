// Package process runs workloads as plain processes of the agent's user, for hosts where no
// container engine may be. It isolates nothing: no limits, no capabilities, no network, no
// sidecar, and Probe says so.
//
// Each workload has a directory, named by its ID, under Options.Dir:
//
//	workload.json  labels, name, when it was made
//	started.json   which processes it is, written by the shim
//	exit.json      how it ended, written by the shim
//	output.log     stdout and stderr, bounded by backend.LogLimit
//	work/          its working directory and HOME
//
// A Spec's Image is empty or an absolute directory: a runner installation, copied into work/
// because a runner writes its configuration beside its programs. Its Command is run there;
// without one ./run.sh is.
//
// Workloads outlive the agent. Each is started by a shim, the agent's own binary run again as
// `zoomies process-shim <dir>`, in a session of its own; it waits for the workload and writes
// down how it ended. The binary's main wires it before anything else:
//
//	if len(os.Args) > 1 && os.Args[1] == process.ShimVerb {
//		os.Exit(process.ShimMain(os.Args[2:]))
//	}
//
// A systemd unit of the agent needs KillMode=process, or systemd ends them with it.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Options of New.
type Options struct {
	// Dir holds the workloads' directories; it is made with mode 0700.
	Dir string
	// HostID limits every call to this host's workloads. Empty means all.
	HostID string
	// Shim is the command that runs ShimMain; nil is this binary with ShimVerb.
	Shim   []string
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Backend runs processes. Make it with New.
type Backend struct {
	dir    string
	hostID string
	shim   []string
	log    *slog.Logger
	now    func() time.Time
	starts engine.Starts
	mu     sync.Mutex // held while a directory is claimed
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend whose workloads live under opts.Dir.
func New(opts Options) (*Backend, error) {
	if opts.Dir == "" {
		return nil, errors.New("cannot run processes: no directory was given for them")
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot run processes: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot run processes: %w", err)
	}
	b := &Backend{dir: dir, hostID: opts.HostID, shim: opts.Shim, log: opts.Logger, now: opts.Now}
	if len(b.shim) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("cannot run processes: %w", err)
		}
		b.shim = []string{self, ShimVerb}
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.now == nil {
		b.now = time.Now
	}
	return b, nil
}

// Name is process.
func (b *Backend) Name() string { return "process" }

// Probe says what the machine is. No limit can be applied.
func (b *Backend) Probe(ctx context.Context) (backend.Info, error) {
	if err := ctx.Err(); err != nil {
		return backend.Info{}, fmt.Errorf("cannot look at the machine: %w", err)
	}
	var name unix.Utsname
	var memory unix.Sysinfo_t
	if err := errors.Join(unix.Uname(&name), unix.Sysinfo(&memory)); err != nil {
		return backend.Info{}, fmt.Errorf("cannot look at the machine: %w", err)
	}
	return backend.Info{
		Version: unix.ByteSliceToString(name.Release[:]), Rootless: os.Geteuid() != 0,
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: float64(runtime.NumCPU()),
		MemoryMB: int64(uint64(memory.Totalram) * uint64(memory.Unit) >> 20), //nolint:unconvert // width differs by platform
	}, nil
}

// Prepare says whether image, a directory, is there. Nothing can be pulled.
func (b *Backend) Prepare(_ context.Context, image, _ string) error {
	if image == "" {
		return nil
	}
	info, err := os.Stat(image)
	if err != nil || !info.IsDir() || !filepath.IsAbs(image) {
		return fmt.Errorf("%q is not an absolute directory with a runner installation, which is what the process backend runs: %w", image, backend.ErrImage)
	}
	return nil
}

// List returns this host's workloads in every phase.
func (b *Backend) List(ctx context.Context) ([]backend.Workload, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list workloads: %w", err)
	}
	var out []backend.Workload
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot list workloads: %w", err)
		}
		if !isID(entry.Name()) {
			continue
		}
		s, err := b.read(entry.Name())
		switch {
		case errors.Is(err, backend.ErrNotFound):
			continue // another host's, or gone since
		case err != nil:
			return nil, err
		}
		out = append(out, s.workload())
	}
	slices.SortFunc(out, func(x, y backend.Workload) int { return x.CreatedAt.Compare(y.CreatedAt) })
	return out, nil
}

// Inspect returns one workload, or ErrNotFound.
func (b *Backend) Inspect(_ context.Context, id string) (backend.Workload, error) {
	s, err := b.read(id)
	if err != nil {
		return backend.Workload{}, err
	}
	return s.workload(), nil
}

// read a workload's state; ErrNotFound when it is not ours.
func (b *Backend) read(id string) (state, error) {
	if !isID(id) {
		return state{}, fmt.Errorf("workload %q: %w", id, backend.ErrNotFound)
	}
	s, err := load(filepath.Join(b.dir, id))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !engine.Ours(s.made.Labels, b.hostID)) {
		return state{}, fmt.Errorf("workload %s: %w", id, backend.ErrNotFound)
	}
	return s, err
}
