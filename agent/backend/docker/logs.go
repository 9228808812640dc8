package docker

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Logs returns stdout and stderr in the order in which the engine read them.
func (b *Backend) Logs(ctx context.Context, id string, opts backend.LogOptions) (io.ReadCloser, error) {
	if _, err := b.ours(ctx, id); err != nil {
		return nil, err
	}
	tail := ""
	if opts.Tail > 0 {
		tail = strconv.Itoa(opts.Tail)
	}
	ctx, cancel := context.WithCancel(ctx)
	raw, err := b.api.ContainerLogs(ctx, id, client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Follow: opts.Follow, Tail: tail,
	})
	if err != nil {
		cancel()
		return nil, fault("read the log of container "+engine.Short(id), err)
	}
	r, w := io.Pipe()
	go func() {
		defer func() { _ = raw.Close() }()
		_, err := stdcopy.StdCopy(w, w, raw)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			err = fault("read the log of container "+engine.Short(id), err)
		}
		_ = w.CloseWithError(err)
	}()
	return &logReader{PipeReader: r, cancel: cancel}, nil
}

// logReader ends the request when it is closed.
type logReader struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (l *logReader) Close() error {
	l.cancel()
	return l.PipeReader.Close()
}
