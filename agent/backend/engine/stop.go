package engine

import (
	"context"
	"fmt"
	"time"
)

// Ender is what a stop needs of an engine.
type Ender interface {
	// Signal is true when the container is gone. One that does not run is no error.
	Signal(ctx context.Context, id, signal string) (gone bool, err error)
	// Wait returns nil once the container does not run, or is gone.
	Wait(ctx context.Context, id string) error
}

// Stop asks a running container to end with signal, and kills it after grace. It signals and
// waits by itself, so that a grace shorter than a second counts and so that Podman 4, whose own
// stop keeps the container locked for the whole grace, can be asked for a listing meanwhile.
func Stop(ctx context.Context, e Ender, id, signal string, grace time.Duration) error {
	if grace > 0 {
		ended, err := signalAndWait(ctx, e, id, signal, grace)
		if err != nil || ended {
			return err
		}
	}
	ended, err := signalAndWait(ctx, e, id, "SIGKILL", KillLimit)
	if err == nil && !ended {
		return fmt.Errorf("cannot stop container %s: it is still there %s after it was killed", Short(id), KillLimit)
	}
	return err
}

// signalAndWait is true when the container has ended within limit.
func signalAndWait(ctx context.Context, e Ender, id, signal string, limit time.Duration) (bool, error) {
	if gone, err := e.Signal(ctx, id, signal); gone || err != nil {
		return gone, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.Wait(waiting, id)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("cannot wait for container %s: %w", Short(id), ctx.Err())
	case waiting.Err() != nil:
		return false, nil
	}
	return false, err
}

// lookEvery is the pause between two looks at a container that is to end.
const lookEvery = 50 * time.Millisecond

// Look asks again and again until ended is true or fails, or ctx ends: for engines whose own wait is late.
func Look(ctx context.Context, ended func() (bool, error)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if done, err := ended(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
