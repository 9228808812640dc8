package process

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// searchPath is a workload's PATH unless its spec has one.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Create starts a workload as a process. Limits are not applied (Probe says so); what would
// change what a job may do is refused instead of ignored.
func (b *Backend) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	s, err := b.create(ctx, spec, true)
	if err != nil {
		return backend.Workload{}, fmt.Errorf("cannot create workload %q: %w", spec.Name, err)
	}
	return s.workload(), nil
}

// create stops short of starting when start is false, which only a test asks for.
func (b *Backend) create(ctx context.Context, spec backend.Spec, start bool) (state, error) {
	if err := errors.Join(spec.Validate(), possible(spec)); err != nil {
		return state{}, err
	}
	owner, err := engine.Owner(b.hostID, spec)
	if err != nil {
		return state{}, err
	}
	spec.HostID = owner
	if err := b.Prepare(ctx, spec.Image, spec.Policy); err != nil {
		return state{}, err
	}
	end, err := b.starts.Begin(spec.RunnerID)
	if err != nil {
		return state{}, err
	}
	defer end()
	dir, err := b.claim(ctx, spec)
	if err != nil {
		return state{}, err
	}
	s, err := b.build(ctx, spec, dir, start)
	if err != nil {
		return state{}, errors.Join(err, removeTree(dir))
	}
	return s, nil
}

// possible refuses what a process cannot be.
func possible(spec backend.Spec) error {
	switch {
	case spec.Daemon != nil:
		return errors.New("the process backend has no sidecar: use a pool on podman or docker for container jobs")
	case spec.ReadOnly:
		return errors.New("the process backend cannot make a runner read-only: use a pool on podman or docker")
	case spec.Network != "" && spec.Network != "host":
		return fmt.Errorf("the process backend has only the host's network, not %q", spec.Network)
	case spec.Image == "" && len(spec.Command) == 0:
		return errors.New("it has neither a command nor an image (a directory with a runner installation)")
	}
	return nil
}

// claim makes the workload's directory, unless its name or runner has one. The file lock is
// against another agent on the same directory.
func (b *Backend) claim(ctx context.Context, spec backend.Spec) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lock := flock.New(filepath.Join(b.dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("cannot lock the workloads: %w", err)
	}
	defer func() { _ = lock.Close() }()
	all, err := b.List(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range all {
		if w.Name == spec.Name || w.RunnerID == spec.RunnerID {
			return "", fmt.Errorf("runner %s has workload %s: %w", w.RunnerID, w.ID, backend.ErrExists)
		}
	}
	dir := filepath.Join(b.dir, idPrefix+strings.ToLower(rand.Text()))
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the workload's directory: %w", err)
	}
	made := madeRecord{Name: spec.Name, Labels: spec.Labels(backend.RoleRunner), MadeAt: b.now().UTC()}
	if err := writeJSON(filepath.Join(dir, madeFile), made); err != nil {
		return "", errors.Join(err, removeTree(dir))
	}
	return dir, nil
}

func (b *Backend) build(ctx context.Context, spec backend.Spec, dir string, start bool) (state, error) {
	work := filepath.Join(dir, workDir)
	if spec.Image == "" {
		if err := os.Mkdir(work, 0o700); err != nil {
			return state{}, fmt.Errorf("cannot make the working directory: %w", err)
		}
	} else if err := os.CopyFS(work, untilDone{ctx, os.DirFS(spec.Image)}); err != nil {
		return state{}, fmt.Errorf("cannot copy the runner: %w", err)
	}
	if start {
		if err := b.launch(ctx, spec, dir); err != nil {
			return state{}, err
		}
	}
	return load(dir)
}

// launch starts the shim and hears whether the command runs.
func (b *Backend) launch(ctx context.Context, spec backend.Spec, dir string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot start the process: %w", err)
	}
	command := spec.Command
	if len(command) == 0 {
		command = []string{"./run.sh"}
	}
	text, err := json.Marshal(order{Command: command, Env: environment(spec, dir), Limit: backend.LogLimit})
	if err != nil {
		return fmt.Errorf("cannot start the process: %w", err)
	}
	heard, answer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot start the process: %w", err)
	}
	defer func() { _ = heard.Close() }()
	argv := append(slices.Clone(b.shim), dir)
	shim := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives us on purpose
	shim.Dir = "/"
	shim.Env = []string{"PATH=" + searchPath}
	shim.Stdin = strings.NewReader(string(text))
	shim.ExtraFiles = []*os.File{answer}
	shim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = shim.Start()
	_ = answer.Close()
	if err != nil {
		return fmt.Errorf("cannot start the shim: %w", err)
	}
	go func() { _ = shim.Wait() }() // reaps it while we live; init does afterwards
	said, err := io.ReadAll(heard)
	if err != nil {
		return fmt.Errorf("cannot hear the shim: %w", err)
	}
	if len(said) > 0 {
		return errors.New(string(said))
	}
	if _, err := os.Stat(filepath.Join(dir, startedFile)); err != nil {
		return fmt.Errorf("the shim ended before it started the process: %w", err)
	}
	return nil
}

// environment of a workload: nothing of the agent's own, which may hold secrets.
func environment(spec backend.Spec, dir string) []string {
	env := map[string]string{
		"PATH": searchPath, "LANG": "C.UTF-8",
		"HOME": filepath.Join(dir, workDir), "TMPDIR": filepath.Join(dir, "tmp"),
	}
	maps.Copy(env, spec.Env)
	out := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		out = append(out, key+"="+env[key])
	}
	return out
}

// untilDone makes a copy end with its context.
type untilDone struct {
	ctx context.Context //nolint:containedctx // of one copy
	fs.FS
}

func (u untilDone) Open(name string) (fs.File, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	return u.FS.Open(name)
}

// ReadLink and Lstat keep symbolic links what they are.
func (u untilDone) ReadLink(name string) (string, error)       { return fs.ReadLink(u.FS, name) }
func (u untilDone) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(u.FS, name) }
func (u untilDone) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(u.FS, name) }
func (u untilDone) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(u.FS, name) }
