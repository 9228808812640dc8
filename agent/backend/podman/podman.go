// Package podman runs workloads with Podman through its own API on a unix socket. It is the
// only package that imports Podman's bindings.
//
// What the engine or the machine cannot do is found out here (features.go), never asked of
// the user: limits that the engine cannot apply are reported by Probe and left out, and a
// service without CAP_SYS_RESOURCE is asked only for resource limits that it can grant.
package podman

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Options of New.
type Options struct {
	// Socket is the path of the engine's unix socket (see Discover and StartService).
	Socket string
	// HostID limits List, Watch and every other call to this host's workloads. When it is
	// empty all managed workloads are ours.
	HostID string
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Backend is a Podman engine. Make it with New.
type Backend struct {
	socket string
	hostID string
	log    *slog.Logger
	now    func() time.Time

	runners engine.Runners
	images  engine.Images
	samples engine.Samples
	found   atomic.Pointer[features] // nil until asked

	mu      sync.Mutex
	asking  *question                   // nil while Podman is not being asked what it is
	conn    context.Context             // carries the bindings' connection; nil until it answered
	done    map[string]backend.Workload // exited, as last inspected
	bridges steadyBridges
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend for the engine at opts.Socket, which need not answer yet.
func New(opts Options) *Backend {
	b := &Backend{
		socket: opts.Socket, hostID: opts.HostID, log: opts.Logger, now: opts.Now,
		done: map[string]backend.Workload{},
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.now == nil {
		b.now = time.Now
	}
	b.runners.HostID, b.runners.Now = b.hostID, b.now
	b.images.Now, b.samples.Now = b.now, b.now
	return b
}

// Name is podman.
func (b *Backend) Name() string { return "podman" }

// Socket is the path of the engine's socket.
func (b *Backend) Socket() string { return b.socket }

// connContext is the caller's context with the bindings' connection in it: they look the
// connection up there.
type connContext struct {
	context.Context //nolint:containedctx // it is one
	conn            context.Context
}

func (c connContext) Value(key any) any {
	if v := c.conn.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// dial returns ctx with the engine's connection, made on first use. The connection itself is
// an HTTP client that dials anew when the engine has been restarted.
func (b *Backend) dial(ctx context.Context) (context.Context, error) {
	b.mu.Lock()
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		fresh, err := connect(ctx, b.socket)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if b.conn == nil {
			b.conn = fresh
		}
		conn = b.conn
		b.mu.Unlock()
	}
	return connContext{ctx, conn}, nil
}

// connect pings the engine at socket. The context it returns never ends.
func connect(ctx context.Context, socket string) (context.Context, error) {
	// The bindings ask three times with pauses; a socket that refuses is known at once.
	var d net.Dialer
	probe, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fault("reach Podman at "+socket, err)
	}
	_ = probe.Close()
	made, err := bindings.NewConnection(ctx, (&url.URL{Scheme: "unix", Path: socket}).String())
	if err != nil {
		return nil, fault("reach Podman at "+socket, err)
	}
	if client, err := bindings.GetClient(made); err == nil {
		if t, ok := client.Client.Transport.(*http.Transport); ok {
			t.MaxIdleConnsPerHost = 16 // a burst of starts need not dial for each call
			t.IdleConnTimeout = time.Minute
		}
	}
	return connContext{context.Background(), context.WithoutCancel(made)}, nil
}
