package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/docker"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/agent/backend/process"
)

// bindBackends makes the backends that the settings name, for the host of that ID: agents which share an engine see only
// their own host's runners.
type bindBackends func(hostID string) ([]backend.Backend, error)

// backends finds the engines that the settings name. Podman's socket is found unless it is given; where no service answers,
// one is started that ends with ctx, below dataDir.
func backends(ctx context.Context, names []string, podmanSocket, dataDir string, log *slog.Logger) (bindBackends, error) {
	var makers []func(hostID string) (backend.Backend, error)
	for _, name := range names {
		m, err := backendMaker(ctx, name, podmanSocket, dataDir, log)
		if err != nil {
			return nil, fmt.Errorf("cannot use the %s backend: %w", name, err)
		}
		makers = append(makers, m)
	}
	if len(makers) == 0 {
		return nil, errors.New("no backend is named: set agent.backends to podman")
	}
	return func(hostID string) ([]backend.Backend, error) {
		var out []backend.Backend
		for _, m := range makers {
			b, err := m(hostID)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
		return out, nil
	}, nil
}

func backendMaker(ctx context.Context, name, podmanSocket, dataDir string, log *slog.Logger) (func(string) (backend.Backend, error), error) {
	switch name {
	case "podman":
		socket := podmanSocket
		if socket == "" {
			var err error
			if socket, err = findPodman(ctx, dataDir, log); err != nil {
				return nil, err
			}
		}
		return func(hostID string) (backend.Backend, error) {
			return podman.New(podman.Options{Socket: socket, HostID: hostID, Logger: log}), nil
		}, nil
	case "docker":
		socket, err := docker.Discover(ctx)
		if err != nil {
			return nil, err
		}
		return func(hostID string) (backend.Backend, error) {
			return docker.New(docker.Options{Socket: socket, HostID: hostID, Logger: log})
		}, nil
	case "process":
		dir := filepath.Join(dataDir, "runners")
		return func(hostID string) (backend.Backend, error) {
			return process.New(process.Options{Dir: dir, HostID: hostID, Logger: log})
		}, nil
	}
	return nil, errors.New("there is no backend of that name; use podman, docker or process")
}

// findPodman returns the socket of a Podman service that runs, or of one that it starts with Podman's usual storage.
func findPodman(ctx context.Context, dataDir string, log *slog.Logger) (string, error) {
	socket, err := podman.Discover(ctx)
	if err == nil {
		return socket, nil
	}
	log.Info("no Podman service answers; starting one", "reason", err)
	svc, err := podman.StartService(ctx, podman.ServiceOptions{Socket: filepath.Join(dataDir, "engine", "podman.sock"), Logger: log})
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() {
		if err := svc.Close(); err != nil {
			log.Warn("the Podman service did not end well", "err", err)
		}
	})
	return svc.Socket(), nil
}
