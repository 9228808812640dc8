package engine

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/sidecar"
)

// State of a container, or of a command in one.
type State struct {
	Running  bool
	ExitCode int // when it has ended
}

// Sidecars is what a sidecar needs of an engine.
type Sidecars interface {
	// Daemon is the sidecar's container.
	Daemon(spec backend.Spec) (Request, error)
	// MakeVolume makes a volume and says where it is on the engine's machine. No container
	// claims the runner, so one of that name is left of an attempt that was cut off: it goes.
	MakeVolume(ctx context.Context, name string, labels map[string]string) (dir string, err error)
	State(ctx context.Context, id string) (State, error)
	Logs(ctx context.Context, id string, opts backend.LogOptions) (io.ReadCloser, error)
	// Exec starts a command in a container; ExecState says what has become of it.
	Exec(ctx context.Context, id string, argv []string) (session string, err error)
	ExecState(ctx context.Context, session string, argv []string) (State, error)
}

// startDaemon makes the volumes and the sidecar and waits until its daemon answers.
func (c *creation) startDaemon(ctx context.Context) (string, error) {
	socketDir := ""
	for _, name := range []string{c.spec.WorkVolume(), c.spec.ExternalsVolume(), c.spec.DataVolume(), c.spec.SocketVolume()} {
		dir, err := c.makeVolume(ctx, name)
		if err != nil {
			return "", err
		}
		socketDir = dir
	}
	request, err := c.Daemon(c.spec)
	if err != nil {
		return "", err
	}
	if c.spec.Policy == backend.PullAlways {
		if err := c.Pull(ctx, request.Image); err != nil {
			return "", err
		}
	}
	id, err := c.make(ctx, request)
	if err != nil {
		return "", err
	}
	if err := c.start(ctx, id); err != nil {
		return "", err
	}
	err = sidecar.Wait(ctx, sidecar.Options{
		Dir:   socketDir,
		Kind:  c.spec.Daemon.Kind,
		Limit: c.spec.Daemon.WaitLimit(),
		Exec:  func(ctx context.Context, argv ...string) error { return c.exec(ctx, id, argv) },
		Alive: func(ctx context.Context) error { return c.daemonAlive(ctx, id) },
	})
	if err != nil {
		return "", fmt.Errorf("cannot use the %s daemon for %s: %w", c.spec.Daemon.Kind, c.spec.Name, err)
	}
	return id, nil
}

func (c *creation) makeVolume(ctx context.Context, name string) (string, error) {
	ctx, done := Settle(ctx, SettleLimit)
	defer done()
	dir, err := c.MakeVolume(ctx, name, c.spec.Labels(backend.RoleDaemon))
	if err != nil {
		return "", err
	}
	c.volumes = append(c.volumes, name)
	return dir, nil
}

// daemonAlive says why a sidecar ended, with the end of its log.
func (c *creation) daemonAlive(ctx context.Context, id string) error {
	state, err := c.State(ctx, id)
	if err != nil || state.Running {
		return err
	}
	ended := fmt.Errorf("it ended with code %d", state.ExitCode)
	if log, err := c.Logs(ctx, id, backend.LogOptions{Tail: 5}); err == nil {
		defer func() { _ = log.Close() }()
		if text, err := io.ReadAll(io.LimitReader(log, 4<<10)); err == nil && len(text) > 0 {
			return fmt.Errorf("%w: %s", ended, strings.TrimSpace(string(text)))
		}
	}
	return ended
}

// exec runs argv in a container and is nil when it ended with 0.
func (c *creation) exec(ctx context.Context, id string, argv []string) error {
	session, err := c.Exec(ctx, id, argv)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := c.ExecState(ctx, session, argv)
		switch {
		case err != nil:
			return err
		case !state.Running && state.ExitCode != 0:
			return fmt.Errorf("%s ended with code %d", argv[0], state.ExitCode)
		case !state.Running:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
