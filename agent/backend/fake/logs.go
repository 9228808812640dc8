package fake

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// logReader reads a workload's log as it grows.
type logReader struct {
	ctx    context.Context
	b      *Backend
	it     *item
	at     int
	follow bool
	once   sync.Once
	closed chan struct{}
}

func newLogReader(ctx context.Context, b *Backend, it *item, opts backend.LogOptions) *logReader {
	return &logReader{
		ctx: ctx, b: b, it: it, at: tailStart(it.log.Bytes(), opts.Tail),
		follow: opts.Follow, closed: make(chan struct{}),
	}
}

// tailStart is where the last n lines begin; 0 for all.
func tailStart(log []byte, n int) int {
	if n <= 0 {
		return 0
	}
	end := len(bytes.TrimSuffix(log, []byte("\n")))
	for i := end - 1; i >= 0; i-- {
		if log[i] == '\n' {
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) {
	for {
		r.b.mu.Lock()
		rest := r.it.log.Bytes()[r.at:]
		n := copy(p, rest)
		r.at += n
		_, exists := r.b.items[r.it.w.ID]
		over := !r.follow || !exists || r.it.w.Phase == backend.Exited
		changed := r.it.changed
		r.b.mu.Unlock()
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case over:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-r.closed:
			return 0, io.ErrClosedPipe
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// Close implements io.Closer.
func (r *logReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
