package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// net is how often a wait looks by itself: a shim that is killed writes nothing.
const net = time.Second

// Stop sends SIGTERM to the workload's process group and kills everything it started after
// grace.
func (b *Backend) Stop(ctx context.Context, id string, grace time.Duration) error {
	s, err := b.read(id)
	if err != nil {
		return err
	}
	if s.phase() != backend.Running {
		return nil
	}
	if grace > 0 {
		s.ask(unix.SIGTERM)
		ended, err := s.await(ctx, grace)
		if err != nil || ended {
			return err
		}
	}
	return s.kill(ctx)
}

// ask passes a signal to the workload: through its shim, or directly when that is gone.
func (s *state) ask(sig unix.Signal) {
	if sig == unix.SIGKILL {
		if s.started.Shim.signal(killAll, false) == nil {
			return
		}
	} else if s.started.Shim.signal(sig, false) == nil {
		return
	}
	_ = s.started.Child.signal(sig, true)
}

func (s *state) kill(ctx context.Context) error {
	s.ask(unix.SIGKILL)
	ended, err := s.await(ctx, engine.KillLimit)
	if err == nil && !ended {
		return fmt.Errorf("cannot stop workload %s: it is still there %s after it was killed", s.id, engine.KillLimit)
	}
	return err
}

// await is true when the workload has ended within limit.
func (s *state) await(ctx context.Context, limit time.Duration) (bool, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w, err := watchDir(s.dir)
	if err != nil {
		return false, err
	}
	defer func() { _ = w.Close() }()
	tick := time.NewTicker(net)
	defer tick.Stop()
	for {
		now, err := load(s.dir)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err == nil && now.phase() == backend.Exited {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("cannot wait for workload %s: %w", s.id, ctx.Err())
		case <-timer.C:
			return false, nil
		case <-w.Events:
		case <-tick.C:
		}
	}
}

func watchDir(dir string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	return w, nil
}

// Remove kills what runs and deletes the workload's directory.
func (b *Backend) Remove(ctx context.Context, id string) error {
	s, err := b.read(id)
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.phase() == backend.Running {
		if err := s.kill(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeTree(s.dir)
}

// removeTree deletes a directory in which jobs have worked: some tools make directories that
// even their owner may not write.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // to delete it
		}
		return nil
	})
	if err = os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot remove the workload's directory: %w", err)
	}
	return nil
}
