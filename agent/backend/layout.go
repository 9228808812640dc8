package backend

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Where things are inside a workload. The runner images, the sidecar and the backends agree
// on these paths.
const (
	// WorkDir is where a runner checks out and builds. With a sidecar it is a volume that
	// both containers mount at this same path, so that a `container:` job's bind mounts
	// mean the same thing to the daemon as to the runner.
	WorkDir = "/home/runner/_work"
	// ExternalsDir is where the runner keeps the Node.js that it runs actions with. It mounts
	// this path into a `container:` job, so with a sidecar it is a volume of both too, which
	// the engine fills from the runner's image when the runner starts.
	ExternalsDir = "/home/runner/externals"
	// DaemonDir is the volume that carries the sidecar's socket, and DaemonSocket the socket.
	DaemonDir    = "/run/zoomies"
	DaemonSocket = DaemonDir + "/docker.sock"
)

// Defaults that a Spec's zero value stands for.
const (
	// DefaultPidsLimit is far above what a build needs and far below what a fork bomb takes.
	DefaultPidsLimit int64 = 4096
	// LogLimit bounds what one workload's log may take on disk, in bytes.
	LogLimit int64 = 64 << 20
	// DefaultDaemonWait is how long a sidecar may take until it answers.
	DefaultDaemonWait = 3 * time.Minute
	// ProbeLimit bounds one health probe of a sidecar.
	ProbeLimit = 5 * time.Second
	// CPUPeriod is the scheduling period that CPU quotas are counted in, in microseconds.
	CPUPeriod uint64 = 100_000
)

// Daemon kinds.
const (
	DaemonDocker = "docker"
	DaemonPodman = "podman"
)

// Pull policies.
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
)

// Capabilities are all that a runner keeps. They are what a package manager run through sudo
// and an entrypoint that changes user need; everything else (raw sockets, device nodes,
// chroot, file capabilities, …) is dropped. A read-only runner keeps none: with no writable
// system there is nothing to install.
var Capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID",
}

// KeptCapabilities are the capabilities that a runner of this spec keeps.
func (s Spec) KeptCapabilities() []string {
	if s.ReadOnly {
		return nil
	}
	return slices.Clone(Capabilities)
}

// NoNewPrivileges says whether setuid programs lose their power in this runner. A read-only
// runner is locked down and has no use for sudo; any other keeps it, because jobs written
// for GitHub's own runners install packages with it. What sudo yields is bounded by
// Capabilities and by the container.
func (s Spec) NoNewPrivileges() bool { return s.ReadOnly }

// ScratchDirs are the tmpfs mounts of a read-only runner. WorkDir is not among them: it is a
// volume on disk, since a checkout may outgrow memory.
var ScratchDirs = []string{"/run", "/tmp", "/var/tmp"}

// Labels of a workload of this spec in the given role.
func (s Spec) Labels(role string) map[string]string {
	return map[string]string{
		LabelManaged: "true",
		LabelRunner:  s.RunnerID,
		LabelPool:    s.PoolID,
		LabelHost:    s.HostID,
		LabelRole:    role,
	}
}

// DaemonName is the sidecar's container.
func (s Spec) DaemonName() string { return s.Name + "-daemon" }

// WorkVolume is the volume that runner and sidecar share at WorkDir.
func (s Spec) WorkVolume() string { return s.Name + "-work" }

// ExternalsVolume is the volume that runner and sidecar share at ExternalsDir.
func (s Spec) ExternalsVolume() string { return s.Name + "-externals" }

// SocketVolume is the volume that carries the daemon's socket.
func (s Spec) SocketVolume() string { return s.Name + "-socket" }

// DataVolume is where the daemon keeps its images, at Daemon.DataDir.
func (s Spec) DataVolume() string { return s.Name + "-data" }

// RunnerEnv is the spec's environment plus what a sidecar makes true. The spec's own values
// win.
func (s Spec) RunnerEnv() map[string]string {
	env := map[string]string{}
	if s.Daemon != nil {
		env["DOCKER_HOST"] = "unix://" + DaemonSocket
		if s.Daemon.Kind == DaemonPodman {
			env["CONTAINER_HOST"] = "unix://" + DaemonSocket
		}
	}
	maps.Copy(env, s.Env)
	return env
}

// Command that the sidecar's image runs: the daemon listening on the shared socket and
// nowhere else on a network. The runner mounts the usual socket of the daemon's machine into
// `container:` jobs whatever DOCKER_HOST says, so dockerd listens there too; our Podman image
// has a link in that place.
func (d Daemon) Command() []string {
	if d.Kind == DaemonPodman {
		return []string{"podman", "system", "service", "--time=0", "unix://" + DaemonSocket}
	}
	return []string{"dockerd", "--host=unix:///var/run/docker.sock", "--host=unix://" + DaemonSocket}
}

// Env of the sidecar. Docker's image would make TLS certificates for a TCP port that is not
// there.
func (d Daemon) Env() map[string]string {
	if d.Kind == DaemonPodman {
		return map[string]string{"PODMAN_IGNORE_CGROUPSV1_WARNING": "1"}
	}
	return map[string]string{"DOCKER_TLS_CERTDIR": ""}
}

// DataDir is where the daemon keeps its images: a volume of its own, because an overlay
// cannot be stacked on the container's overlay. It has a name and labels so that it is found
// when its container is gone.
func (d Daemon) DataDir() string {
	if d.Kind == DaemonPodman {
		return "/var/lib/containers"
	}
	return "/var/lib/docker"
}

// WaitLimit is Wait or its default.
func (d Daemon) WaitLimit() time.Duration {
	if d.Wait <= 0 {
		return DefaultDaemonWait
	}
	return d.Wait
}

// Pids is PidsLimit or its default.
func (s Spec) Pids() int64 {
	if s.PidsLimit <= 0 {
		return DefaultPidsLimit
	}
	return s.PidsLimit
}

// CPUQuota in microseconds per CPUPeriod; 0 is none. The kernel takes no quota below a
// hundredth of a core.
func (s Spec) CPUQuota() int64 {
	if s.CPUs <= 0 {
		return 0
	}
	return max(int64(s.CPUs*float64(CPUPeriod)), int64(CPUPeriod/100))
}

// MemoryBytes is MemoryMB in bytes; 0 is none.
func (s Spec) MemoryBytes() int64 { return s.MemoryMB << 20 }

// Validate refuses what no backend can start.
func (s Spec) Validate() error {
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == "" {
		say("it has no name")
	}
	if s.RunnerID == "" {
		say("it has no runner ID")
	}
	if s.CPUs < 0 || s.MemoryMB < 0 || s.PidsLimit < 0 {
		say("a limit is negative")
	}
	switch s.Policy {
	case "", PullMissing, PullAlways, PullNever:
	default:
		say("pull policy %q is not one of %s, %s, %s", s.Policy, PullMissing, PullAlways, PullNever)
	}
	for key := range s.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			say("an environment variable's name is empty or holds = or NUL")
		}
	}
	for key, value := range s.Env {
		if strings.ContainsRune(value, 0) {
			say("environment variable %s holds a NUL", key)
		}
	}
	if d := s.Daemon; d != nil {
		if d.Kind != DaemonDocker && d.Kind != DaemonPodman {
			say("daemon kind %q is not %s or %s", d.Kind, DaemonDocker, DaemonPodman)
		}
		if d.Image == "" {
			say("the daemon has no image")
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("cannot start workload %q: %w", s.Name, errors.Join(errs...))
	}
	return nil
}

// SocketIn is the daemon's socket in the directory that its volume has on the host.
func SocketIn(dir string) string { return path.Join(dir, path.Base(DaemonSocket)) }
