package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// features is what the engine and the machine under it can do.
type features struct {
	info    backend.Info
	ulimits []*container.Ulimit // to be set on every create; nil when the defaults work
	init    bool                // the engine has an init that reaps
	podman  bool                // it is Podman's imitation
}

// Probe asks the engine what it is and can do.
func (b *Backend) Probe(ctx context.Context) (backend.Info, error) {
	answer, err := b.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return backend.Info{}, fault("ask Docker what it can do", err)
	}
	version, err := b.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return backend.Info{}, fault("ask Docker for its version", err)
	}
	info := answer.Info
	found := features{
		info: backend.Info{
			Version:  info.ServerVersion,
			Rootless: slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "rootless") }),
			OS:       info.OSType, Arch: version.Arch,
			CPUs: float64(info.NCPU), MemoryMB: info.MemTotal >> 20, CgroupV2: info.CgroupVersion == "2",
			CPULimit: info.CPUCfsQuota && info.CPUCfsPeriod, MemoryLimit: info.MemoryLimit, PidsLimit: info.PidsLimit,
			StorageDir: info.DockerRootDir,
		},
		podman: slices.ContainsFunc(version.Components, func(c system.ComponentVersion) bool { return strings.Contains(c.Name, "Podman") }),
	}
	process, unseen := peer.Of(ctx, b.socket)
	if unseen != nil {
		b.log.Debug("cannot see Docker's process, so its own default limits stand", "error", unseen)
	} else if found.podman && process.UID != 0 {
		found.info.Rootless = true // Podman 4's imitation does not say so
	}
	if found.info.Rootless && !found.info.CgroupV2 {
		// Without root only version 2 lets limits be delegated; Podman's imitation says that it has them all the same.
		found.info.CPULimit, found.info.MemoryLimit, found.info.PidsLimit = false, false, false
	}
	found.init = info.InitBinary != "" && !found.podman
	if !found.info.Rootless && unseen == nil {
		found.ulimits = ulimits(process)
	}
	b.found.Store(&found)
	return found.info, nil
}

// ulimits to ask for. An engine without CAP_SYS_RESOURCE cannot give more open files and
// processes than it has itself.
func ulimits(process peer.Process) []*container.Ulimit {
	if process.MayRaiseLimits() {
		return nil
	}
	var out []*container.Ulimit
	for name, n := range map[string]uint64{"nofile": process.MaxFiles, "nproc": process.MaxProcesses} {
		if n > 0 {
			out = append(out, &container.Ulimit{Name: name, Hard: int64(n), Soft: int64(n)})
		}
	}
	return out
}

// features of the engine, asked once.
func (b *Backend) features(ctx context.Context) (features, error) {
	if found := b.found.Load(); found != nil {
		return *found, nil
	}
	if _, err := b.Probe(ctx); err != nil {
		return features{}, err
	}
	return *b.found.Load(), nil
}

// network is the mode in Docker's words.
func network(mode string) (container.NetworkMode, error) {
	if mode == "" {
		return "bridge", nil
	}
	if strings.ContainsAny(mode, ":/ \x00") {
		return "", fmt.Errorf("network %q is not bridge, host, none or a network's name", mode)
	}
	return container.NetworkMode(mode), nil
}
