package podman

import (
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	nettypes "go.podman.io/common/libnetwork/types"
	"go.podman.io/image/v5/manifest"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// stopTimeout is what Podman itself waits for when somebody else stops a workload (podman
// stop, a machine that goes down), in seconds.
const stopTimeout = 30

// runnerSpec is the runner's container. Its secrets travel in the body of the request.
func runnerSpec(spec backend.Spec, f features, sidecar string) (*specgen.SpecGenerator, error) {
	s := base(spec, f, backend.RoleRunner)
	s.Name, s.Image, s.Command, s.Env = spec.Name, spec.Image, spec.Command, spec.RunnerEnv()
	s.CapDrop = []string{"all"}
	s.CapAdd = spec.KeptCapabilities()
	s.NoNewPrivileges = new(spec.NoNewPrivileges())
	s.ReadOnlyFilesystem = new(spec.ReadOnly)
	s.ReadWriteTmpfs = new(false)
	if f.init {
		s.Init = new(true)
	}
	if spec.ReadOnly {
		for _, dir := range backend.ScratchDirs {
			s.Mounts = append(s.Mounts, specs.Mount{
				Destination: dir, Type: define.TypeTmpfs, Source: define.TypeTmpfs,
				Options: []string{"rw", "nosuid", "nodev", "exec", "mode=1777"},
			})
		}
	}
	switch {
	case spec.Daemon != nil:
		s.Volumes = append(s.Volumes, workVolume(spec.WorkVolume()), externalsVolume(spec), socketVolume(spec))
		// Ports that the daemon publishes are on localhost for the job, as on GitHub's own
		// runners, because both share one network.
		s.NetNS = specgen.Namespace{NSMode: specgen.FromContainer, Value: sidecar}
		return s, nil
	case spec.ReadOnly:
		s.Volumes = append(s.Volumes, workVolume(""))
	}
	return s, attach(s, spec, f)
}

// daemonSpec is the sidecar's container.
func daemonSpec(spec backend.Spec, f features) (*specgen.SpecGenerator, error) {
	s := base(spec, f, backend.RoleDaemon)
	s.Name, s.Image = spec.DaemonName(), spec.Daemon.Image
	s.Command, s.Env = spec.Daemon.Command(), spec.Daemon.Env()
	s.Privileged = new(true)
	if !f.info.CgroupV2 {
		// A nested engine finds its way through version 1 hierarchies only from the top.
		s.CgroupNS = specgen.Namespace{NSMode: specgen.Host}
	}
	s.Volumes = []*specgen.NamedVolume{
		{Name: spec.WorkVolume(), Dest: backend.WorkDir},
		externalsVolume(spec),
		socketVolume(spec),
		{Name: spec.DataVolume(), Dest: spec.Daemon.DataDir()},
	}
	return s, attach(s, spec, f)
}

func base(spec backend.Spec, f features, role string) *specgen.SpecGenerator {
	s := specgen.NewSpecGenerator("", false)
	s.Labels = spec.Labels(role)
	s.RestartPolicy = define.RestartPolicyNo
	s.Systemd = "false"
	s.SdNotifyMode = define.SdNotifyModeIgnore
	s.HTTPProxy = new(false) // the agent's proxy may carry a password
	s.StopSignal = nil       // the image's own, else SIGTERM
	s.StopTimeout = new(uint(stopTimeout))
	s.ImageVolumeMode = "anonymous"
	s.LogConfiguration = &specgen.LogConfig{Driver: define.KubernetesLogging, Size: backend.LogLimit}
	s.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}}
	s.Rlimits = f.rlimits
	s.ResourceLimits = limits(spec, f.info)
	return s
}

// limits that the engine can apply. Swap counts together with memory, so that the two being
// equal means none.
func limits(spec backend.Spec, can backend.Info) *specs.LinuxResources {
	out := &specs.LinuxResources{}
	if quota := spec.CPUQuota(); quota > 0 && can.CPULimit {
		out.CPU = &specs.LinuxCPU{Quota: &quota, Period: new(backend.CPUPeriod)}
	}
	if bytes := spec.MemoryBytes(); bytes > 0 && can.MemoryLimit {
		out.Memory = &specs.LinuxMemory{Limit: &bytes, Swap: &bytes}
	}
	if can.PidsLimit {
		out.Pids = &specs.LinuxPids{Limit: spec.Pids()}
	}
	return out
}

func workVolume(name string) *specgen.NamedVolume {
	// U gives the volume to the user that the image runs as.
	return &specgen.NamedVolume{Name: name, Dest: backend.WorkDir, Options: []string{"U"}}
}

func externalsVolume(spec backend.Spec) *specgen.NamedVolume {
	return &specgen.NamedVolume{Name: spec.ExternalsVolume(), Dest: backend.ExternalsDir}
}

func socketVolume(spec backend.Spec) *specgen.NamedVolume {
	return &specgen.NamedVolume{Name: spec.SocketVolume(), Dest: backend.DaemonDir}
}

// attach joins the network that the spec asks for.
func attach(s *specgen.SpecGenerator, spec backend.Spec, f features) error {
	mode, err := f.network(spec.Network)
	if err != nil {
		return err
	}
	switch mode {
	case "bridge", "host", "none", "private", "slirp4netns", "pasta":
		s.NetNS = specgen.Namespace{NSMode: specgen.NamespaceMode(mode)}
	default:
		s.NetNS = specgen.Namespace{NSMode: specgen.Bridge}
		s.Networks = map[string]nettypes.PerNetworkOptions{mode: {}}
	}
	return nil
}

// signal reads a stop signal out of an inspection: Podman 4 says a number, 5 a name.
func signal(raw string) string {
	raw = strings.TrimSpace(raw)
	if raw == "" || raw == "0" {
		return "TERM"
	}
	return raw
}
