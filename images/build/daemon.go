package main

import (
	"context"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/images/catalogue"
)

// In a sidecar there is no systemd, no journal and no cgroup of its own to manage.
const containersConf = `[containers]
# A job's containers live in the sidecar's own limits. Without root, or on version 1 cgroups,
# no cgroup can be made for each.
pids_limit = 0
cgroups = "disabled"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"

[network]
network_backend = "netavark"
`

// The runner mounts the usual socket into `container:` jobs, wherever the daemon listens.
const (
	usualSocket  = "/run/docker.sock" // Debian's /var/run is a link to /run
	sharedSocket = "/run/zoomies/docker.sock"
)

// daemonStore is where the sidecar keeps images: always a volume, because an overlay cannot
// be stacked on the container's own.
const daemonStore = "/var/lib/containers"

func buildDaemon(ctx context.Context, c catalogue.Catalogue, req request, log io.Writer, bootstrap bootstrapFunc) error {
	ref := c.Daemon.Reference
	if req.ref != "" {
		ref = req.ref
	}
	b, err := newBuilder(req)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.addRootfs(ctx, log, bootstrap, rootfs{packages: c.Daemon.Packages}); err != nil {
		return err
	}
	if err := b.add(func(l *layerWriter) error {
		return errors.Join(
			l.file("/etc/containers/containers.conf", 0o644, []byte(containersConf)),
			l.dir(daemonStore, 0o755, 0),
			l.link(usualSocket, sharedSocket),
		)
	}); err != nil {
		return err
	}
	return b.write(ref, v1.Config{
		// catatonit is the init: Podman's monitors become its children. The agent replaces the
		// command to name the socket that it shares with the runner.
		Entrypoint: []string{"/usr/bin/catatonit", "--"},
		Cmd:        []string{"podman", "system", "service", "--time=0", "unix:///run/podman/podman.sock"},
		Env:        []string{"PATH=" + defaultPath, "LANG=C.UTF-8"},
		Volumes:    map[string]struct{}{daemonStore: {}},
		WorkingDir: "/",
	})
}
