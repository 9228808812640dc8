package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// backends makes what the settings name. Podman's socket is found unless it is given; where no service runs, one of our
// own is started, with the engine's usual storage.
func backends(ctx context.Context, names []string, podmanSocket, dataDir string, log *slog.Logger) ([]backend.Backend, error) {
	var out []backend.Backend
	for _, name := range names {
		b, err := makeBackend(ctx, name, podmanSocket, dataDir, log)
		if err != nil {
			return nil, fmt.Errorf("cannot use the %s backend: %w", name, err)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, errors.New("no backend is named: set agent.backends to podman")
	}
	return out, nil
}

func makeBackend(ctx context.Context, name, podmanSocket, dataDir string, log *slog.Logger) (backend.Backend, error) {
	switch name {
	case "podman":
		if podmanSocket == "" {
			found, err := podman.Discover(ctx)
			if err != nil {
				return nil, err
			}
			podmanSocket = found
		}
		return podman.New(podman.Options{Socket: podmanSocket, Logger: log}), nil
	}
	return nil, errors.New("there is no backend of that name; use podman, docker or process")
}
