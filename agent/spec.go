package agent

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// The environment that a runner image's entrypoint reads.
const (
	EnvJITConfig  = "ZOOMIES_JITCONFIG" // secret
	EnvURL        = "ZOOMIES_RUNNER_URL"
	EnvToken      = "ZOOMIES_RUNNER_TOKEN" // secret
	EnvName       = "ZOOMIES_RUNNER_NAME"
	EnvLabels     = "ZOOMIES_RUNNER_LABELS" // comma-separated
	EnvGroup      = "ZOOMIES_RUNNER_GROUP"
	EnvDaemon     = "ZOOMIES_DAEMON"      // docker or podman
	EnvDockerWait = "ZOOMIES_DOCKER_WAIT" // whole seconds, 1 to 3600
)

// Bounds of EnvDockerWait.
const (
	minDaemonWait = time.Second
	maxDaemonWait = time.Hour
)

// specOf turns a create task into a workload. Its errors name fields, never values: the task
// carries secrets.
func specOf(c *protocol.CreateRunner, runnerID, hostID string) (backend.Spec, error) {
	switch {
	case c.Name == "":
		return backend.Spec{}, errors.New("cannot start the runner: the task has no name for it")
	case c.JITConfig == "" && c.Registration == nil:
		return backend.Spec{}, errors.New("cannot start the runner: the task has no registration for it")
	case c.Daemon != "" && c.Daemon != "docker" && c.Daemon != "podman":
		return backend.Spec{}, fmt.Errorf("cannot start the runner: this host's agent knows no daemon %q", c.Daemon)
	case c.CPUs < 0, c.MemoryMB < 0, c.PidsLimit < 0:
		return backend.Spec{}, errors.New("cannot start the runner: a limit is less than none")
	}
	spec := backend.Spec{
		Name: c.Name, HostID: hostID, RunnerID: runnerID, PoolID: c.PoolID,
		Image: c.Image, Policy: c.PullPolicy, Env: envOf(c),
		CPUs: c.CPUs, MemoryMB: c.MemoryMB, PidsLimit: c.PidsLimit,
		Network: c.Network, ReadOnly: c.ReadOnly,
	}
	if spec.Policy == "" {
		spec.Policy = "missing"
	}
	if c.Daemon != "" {
		spec.Daemon = &backend.Daemon{Kind: c.Daemon, Image: c.DaemonImage, Wait: c.DaemonWait.Duration()}
	}
	return spec, nil
}

// envOf lays the fleet's own variables over the pool's, except for the daemon's wait, which a
// pool may set itself.
func envOf(c *protocol.CreateRunner) map[string]string {
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	if c.JITConfig != "" {
		env[EnvJITConfig] = c.JITConfig
	} else {
		r := c.Registration
		env[EnvURL], env[EnvToken], env[EnvName] = r.URL, r.Token, c.Name
		env[EnvLabels] = strings.Join(r.Labels, ",")
		if r.Group != "" {
			env[EnvGroup] = r.Group
		}
	}
	if c.Daemon != "" {
		env[EnvDaemon] = c.Daemon
		if _, set := env[EnvDockerWait]; !set && c.DaemonWait > 0 {
			wait := min(max(c.DaemonWait.Duration(), minDaemonWait), maxDaemonWait)
			env[EnvDockerWait] = strconv.Itoa(int(wait.Round(time.Second).Seconds()))
		}
	}
	return env
}
