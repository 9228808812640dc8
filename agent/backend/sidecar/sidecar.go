// Package sidecar waits until the daemon in a sidecar answers on the unix socket that it
// shares with its runner. A running container proves nothing: dockerd sets up its storage and
// firewall before it listens.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Options of Wait.
type Options struct {
	// Dir is where the socket's volume is on the engine's machine. When this process can see
	// it the socket is asked directly, else through Exec.
	Dir  string
	Kind string
	// Limit bounds the whole wait; each probe is bounded by backend.ProbeLimit.
	Limit time.Duration
	// Exec runs a command in the sidecar and is nil when it succeeded.
	Exec func(ctx context.Context, argv ...string) error
	// Alive is nil while the sidecar runs; its error ends the wait at once.
	Alive func(ctx context.Context) error
}

// ErrSilent says that the daemon did not answer in time.
var ErrSilent = errors.New("it never answered")

// Wait returns once the daemon answers and the runner's user may talk to it.
func Wait(ctx context.Context, opts Options) error {
	limited, cancel := context.WithTimeout(ctx, opts.Limit)
	defer cancel()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval, pace.Multiplier = 50*time.Millisecond, time.Second, 1.5
	var last error
	_, err := backoff.Retry(limited, func() (struct{}, error) {
		probe, done := context.WithTimeout(limited, backend.ProbeLimit)
		defer done()
		if last = opts.ask(probe); last == nil {
			return struct{}{}, nil
		}
		if err := opts.Alive(probe); err != nil && probe.Err() == nil {
			last = err
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		return opts.open(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("cannot wait for it: %w", ctx.Err())
	case limited.Err() != nil:
		return fmt.Errorf("%w within %s (raise runners.docker_wait if it needs longer): %w", ErrSilent, opts.Limit, last)
	}
	return err
}

// ask is one probe.
func (o Options) ask(ctx context.Context) error {
	dir, err := os.OpenFile(o.Dir, os.O_RDONLY, 0)
	if err != nil {
		return o.askInside(ctx)
	}
	defer func() { _ = dir.Close() }()
	// Through the descriptor the path is short: a socket's may have 107 bytes at most, and a
	// volume's is easily longer.
	socket := backend.SocketIn(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/_ping", nil)
	if err != nil {
		return fmt.Errorf("cannot ask the daemon: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("cannot ask the daemon: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answers %s", answer.Status)
	}
	return nil
}

func (o Options) askInside(ctx context.Context) error {
	if o.Kind == backend.DaemonPodman {
		return o.Exec(ctx, "podman", "--url", "unix://"+backend.DaemonSocket, "version")
	}
	return o.Exec(ctx, "docker", "--host", "unix://"+backend.DaemonSocket, "version")
}

// open lets the runner's user, whichever it is, talk to the daemon. Nobody else mounts the
// volume.
func (o Options) open(ctx context.Context) error {
	info, err := os.Lstat(backend.SocketIn(o.Dir))
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return errors.New("cannot open the daemon's socket to the runner: there is something else in its place")
	}
	if err == nil {
		err = os.Chmod(backend.SocketIn(o.Dir), 0o666) //nolint:gosec // see above
	}
	if err == nil {
		return nil
	}
	if inside := o.Exec(ctx, "chmod", "0666", backend.DaemonSocket); inside != nil {
		return fmt.Errorf("cannot open the daemon's socket to the runner: %w", errors.Join(err, inside))
	}
	return nil
}
