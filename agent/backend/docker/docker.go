// Package docker runs workloads with Docker through its own API on a unix socket. It speaks to
// Podman's Docker-compatible socket as well, which is what its conformance test uses.
//
// What the engine cannot do is found out (features.go), never asked of the user.
package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Options of New.
type Options struct {
	// Socket is the path of the engine's unix socket (see Discover).
	Socket string
	// HostID limits every call to this host's workloads. When it is empty all managed
	// workloads are ours.
	HostID string
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Backend is a Docker engine. Make it with New.
type Backend struct {
	socket  string
	hostID  string
	log     *slog.Logger
	now     func() time.Time
	api     *client.Client
	runners engine.Runners
	images  engine.Images
	samples engine.Samples
	found   atomic.Pointer[features] // nil until asked

	mu   sync.Mutex
	seen map[string]backend.Workload // as last inspected, by container
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend for the engine at opts.Socket, which need not answer yet.
func New(opts Options) (*Backend, error) {
	api, err := client.New(client.WithHost("unix://" + opts.Socket))
	if err != nil {
		return nil, fmt.Errorf("cannot use Docker at %s: %w", opts.Socket, err)
	}
	b := &Backend{
		socket: opts.Socket, hostID: opts.HostID, log: opts.Logger, now: opts.Now, api: api,
		seen: map[string]backend.Workload{},
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.now == nil {
		b.now = time.Now
	}
	b.runners.HostID, b.runners.Now = b.hostID, b.now
	b.images.Now, b.samples.Now = b.now, b.now
	return b, nil
}

// Name is docker.
func (b *Backend) Name() string { return "docker" }

// Close lets go of idle connections.
func (b *Backend) Close() error { return b.api.Close() }

// Discover returns the socket of a Docker that answers: the user's own first, then the
// system's. The error is ErrUnavailable and says what was wrong with each.
func Discover(ctx context.Context) (string, error) {
	var sockets []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = append(sockets, filepath.Join(dir, "docker.sock"))
	}
	var errs []error
	for _, socket := range append(sockets, "/var/run/docker.sock") {
		err := ping(ctx, socket)
		if err == nil {
			return socket, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("cannot find a running Docker: %w: %w", backend.ErrUnavailable, errors.Join(errs...))
}

func ping(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, engine.SettleLimit)
	defer cancel()
	api, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", socket, err)
	}
	defer func() { _ = api.Close() }()
	_, err = api.Ping(ctx, client.PingOptions{})
	return fault("reach Docker at "+socket, err)
}
