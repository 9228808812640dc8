package docker

import (
	"context"
	"io"
	"strconv"

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
	return engine.Demultiplex(raw, cancel, func(err error) error {
		return fault("read the log of container "+engine.Short(id), err)
	}), nil
}
