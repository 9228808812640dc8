package main

import (
	"context"
	"path/filepath"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/docker"
	"github.com/zoomies-fleet/zoomies/agent/backend/process"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
)

// makers are the backends of this binary.
var makers = map[string]agentcmd.Maker{"podman": agentcmd.Podman, "docker": dockerBackend, "process": processBackend}

func dockerBackend(ctx context.Context, e agentcmd.Engine) (func(hostID string) (backend.Backend, error), error) {
	socket, err := docker.Discover(ctx)
	if err != nil {
		return nil, err
	}
	return func(hostID string) (backend.Backend, error) {
		return docker.New(docker.Options{Socket: socket, HostID: hostID, Logger: e.Logger})
	}, nil
}

func processBackend(_ context.Context, e agentcmd.Engine) (func(hostID string) (backend.Backend, error), error) {
	dir := filepath.Join(e.DataDir, "runners")
	return func(hostID string) (backend.Backend, error) {
		return process.New(process.Options{Dir: dir, HostID: hostID, Logger: e.Logger})
	}, nil
}
