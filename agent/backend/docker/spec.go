package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// stopTimeout is what the engine itself waits for when somebody else stops a workload, in
// seconds.
const stopTimeout = 30

// runnerOptions is the runner's container. Its secrets travel in the body of the request.
func runnerOptions(spec backend.Spec, f features, sidecar string) (client.ContainerCreateOptions, error) {
	out := base(spec, f, backend.RoleRunner)
	out.Name = spec.Name
	out.Config.Image, out.Config.Cmd, out.Config.Env = spec.Image, spec.Command, environment(spec.RunnerEnv())
	out.HostConfig.CapDrop = []string{"ALL"}
	out.HostConfig.CapAdd = spec.KeptCapabilities()
	out.HostConfig.ReadonlyRootfs = spec.ReadOnly
	if spec.NoNewPrivileges() {
		out.HostConfig.SecurityOpt = []string{"no-new-privileges"}
	}
	if f.init {
		out.HostConfig.Init = new(true)
	}
	if spec.ReadOnly {
		out.HostConfig.Tmpfs = map[string]string{}
		for _, dir := range backend.ScratchDirs {
			out.HostConfig.Tmpfs[dir] = "rw,nosuid,nodev,exec,mode=1777"
		}
	}
	switch {
	case spec.Daemon != nil:
		out.HostConfig.Binds = []string{
			work(spec.WorkVolume(), f),
			spec.ExternalsVolume() + ":" + backend.ExternalsDir,
			spec.SocketVolume() + ":" + backend.DaemonDir,
		}
		// Ports that the daemon publishes are on localhost for the job, as on GitHub's own
		// runners, because both share one network.
		out.HostConfig.NetworkMode = container.NetworkMode("container:" + sidecar)
		return out, nil
	case spec.ReadOnly:
		out.HostConfig.Mounts = []mount.Mount{{Type: mount.TypeVolume, Target: backend.WorkDir}}
	}
	var err error
	out.HostConfig.NetworkMode, err = network(spec.Network)
	return out, err
}

// daemonOptions is the sidecar's container.
func daemonOptions(spec backend.Spec, f features) (client.ContainerCreateOptions, error) {
	out := base(spec, f, backend.RoleDaemon)
	out.Name = spec.DaemonName()
	out.Config.Image, out.Config.Cmd, out.Config.Env = spec.Daemon.Image, spec.Daemon.Command(), environment(spec.Daemon.Env())
	out.HostConfig.Privileged = true
	if !f.info.CgroupV2 {
		// A nested engine finds its way through version 1 hierarchies only from the top.
		out.HostConfig.CgroupnsMode = container.CgroupnsModeHost
	}
	out.HostConfig.Binds = []string{
		spec.WorkVolume() + ":" + backend.WorkDir,
		spec.ExternalsVolume() + ":" + backend.ExternalsDir,
		spec.SocketVolume() + ":" + backend.DaemonDir,
		spec.DataVolume() + ":" + spec.Daemon.DataDir(),
	}
	var err error
	out.HostConfig.NetworkMode, err = network(spec.Network)
	return out, err
}

func base(spec backend.Spec, f features, role string) client.ContainerCreateOptions {
	host := &container.HostConfig{
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig: container.LogConfig{
			Type:   "json-file",
			Config: map[string]string{"max-size": strconv.FormatInt(backend.LogLimit>>20, 10) + "m"},
		},
		Resources: container.Resources{Ulimits: f.ulimits},
	}
	if quota := spec.CPUQuota(); quota > 0 && f.info.CPULimit {
		host.CPUQuota, host.CPUPeriod = quota, int64(backend.CPUPeriod)
	}
	if bytes := spec.MemoryBytes(); bytes > 0 && f.info.MemoryLimit {
		host.Memory, host.MemorySwap = bytes, bytes // swap counts together with memory: none
	}
	if f.info.PidsLimit {
		host.PidsLimit = new(spec.Pids())
	}
	return client.ContainerCreateOptions{
		Config: &container.Config{
			Labels:      spec.Labels(role),
			StopTimeout: new(stopTimeout),
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: host,
	}
}

// work mounts the work volume. Podman can give it to the user that the image runs as; Docker
// takes over the owner of the image's own directory at that path.
func work(name string, f features) string {
	if f.podman {
		return name + ":" + backend.WorkDir + ":U"
	}
	return name + ":" + backend.WorkDir
}

func environment(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		out = append(out, fmt.Sprintf("%s=%s", key, env[key]))
	}
	return out
}
