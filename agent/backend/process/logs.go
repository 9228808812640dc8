package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Logs returns the workload's output in the order in which it was written.
func (b *Backend) Logs(ctx context.Context, id string, opts backend.LogOptions) (io.ReadCloser, error) {
	s, err := b.read(id)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(s.dir, logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of workload %s: %w", id, err)
	}
	if opts.Tail > 0 {
		if err := seekTail(file, opts.Tail); err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("cannot read the log of workload %s: %w", id, err)
		}
	}
	if !opts.Follow {
		return file, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() {
		defer func() { _ = file.Close() }()
		_ = w.CloseWithError(s.follow(ctx, file, w))
	}()
	return &follower{PipeReader: r, cancel: cancel}, nil
}

type follower struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (f *follower) Close() error {
	f.cancel()
	return f.PipeReader.Close()
}

// follow copies file to w until the workload has ended.
func (s *state) follow(ctx context.Context, file *os.File, w io.Writer) error {
	changes, err := watchDir(s.dir)
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }()
	tick := time.NewTicker(net)
	defer tick.Stop()
	for {
		now, err := load(s.dir)
		ended := err != nil || now.phase() == backend.Exited // looked up before the last read
		if err := rewindTruncated(file); err != nil {
			return err
		}
		if _, err := io.Copy(w, file); err != nil {
			return fmt.Errorf("cannot read the log of workload %s: %w", s.id, err)
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes.Events:
		case <-tick.C:
		}
	}
}

// rewindTruncated goes back to the start of a log that was started over.
func rewindTruncated(file *os.File) error {
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	if info.Size() < at {
		_, err = file.Seek(0, io.SeekStart)
	}
	return err
}

// seekTail moves to the start of the last n lines.
func seekTail(file *os.File, n int) error {
	starts := make([]int64, 0, n)
	lines := bufio.NewReader(file)
	at := int64(0)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 && (at == 0 || endsLine(file, at)) {
			if len(starts) == n {
				starts = starts[1:]
			}
			starts = append(starts, at)
		}
		at += int64(len(line))
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
			continue
		case !errors.Is(err, io.EOF):
			return err
		}
		if len(starts) > 0 {
			at = starts[0]
		}
		_, err = file.Seek(at, io.SeekStart)
		return err
	}
}

// endsLine says whether the byte before at is a line's end: a long line comes in pieces.
func endsLine(file *os.File, at int64) bool {
	var last [1]byte
	_, err := file.ReadAt(last[:], at-1)
	return err == nil && last[0] == '\n'
}
