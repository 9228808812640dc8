package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// Bind makes the backends that the settings name, for the host of that ID: agents which share an engine see only their own host's
// runners.
type Bind func(hostID string) ([]backend.Backend, error)

// Engine is what a Maker may need.
type Engine struct {
	PodmanSocket string // empty is to be found
	DataDir      string
	Logger       *slog.Logger
}

// Maker finds an engine once, and then makes its backend for each host. What it starts ends with ctx.
type Maker func(ctx context.Context, e Engine) (func(hostID string) (backend.Backend, error), error)

// Backends finds the engines that the settings name.
func Backends(ctx context.Context, names []string, have map[string]Maker, e Engine) (Bind, error) {
	var makers []func(hostID string) (backend.Backend, error)
	for _, name := range names {
		find, ok := have[name]
		if !ok {
			return nil, fmt.Errorf("cannot use the %s backend: there is no backend of that name; use %s", name, alternatives(have))
		}
		m, err := find(ctx, e)
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

// alternatives is a list for people: podman, docker or process.
func alternatives(have map[string]Maker) string {
	names := slices.SortedFunc(maps.Keys(have), func(a, b string) int {
		if (a == "podman") != (b == "podman") { // the usual one first
			if a == "podman" {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Podman is the Maker of the Podman backend. Where no service answers, one is started with Podman's usual storage.
func Podman(ctx context.Context, e Engine) (func(hostID string) (backend.Backend, error), error) {
	socket := e.PodmanSocket
	if socket == "" {
		var err error
		if socket, err = findPodman(ctx, e.DataDir, e.Logger); err != nil {
			return nil, err
		}
	}
	return func(hostID string) (backend.Backend, error) {
		return podman.New(podman.Options{Socket: socket, HostID: hostID, Logger: e.Logger}), nil
	}, nil
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
