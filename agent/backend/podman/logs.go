package podman

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Logs returns stdout and stderr in the order in which the engine read them. The request is made
// through the bindings' connection and not their Logs, which pushes lines into channels that
// cannot be given up on.
func (b *Backend) Logs(ctx context.Context, id string, opts backend.LogOptions) (io.ReadCloser, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.ours(ctx, id); err != nil {
		return nil, err
	}
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return nil, fault("read logs", err)
	}
	params := url.Values{
		"stdout": {"true"}, "stderr": {"true"}, "follow": {strconv.FormatBool(opts.Follow)},
	}
	if opts.Tail > 0 {
		params.Set("tail", strconv.Itoa(opts.Tail))
	}
	ctx, cancel := context.WithCancel(ctx)
	response, err := conn.DoRequest(ctx, nil, http.MethodGet, "/containers/%s/logs", params, nil, id)
	if err != nil {
		cancel()
		return nil, fault("read the log of container "+engine.Short(id), err)
	}
	if !response.IsSuccess() {
		defer cancel()
		defer func() { _ = response.Body.Close() }()
		return nil, fault("read the log of container "+engine.Short(id), response.Process(nil))
	}
	return engine.Demultiplex(response.Body, cancel, func(err error) error {
		return fault("read the log of container "+engine.Short(id), err)
	}), nil
}
