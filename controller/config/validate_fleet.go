package config

import (
	"fmt"
	"slices"
	"strings"
)

// sustainedMints is the most registrations a minute that leave GitHub's hourly ceiling of
// 10,000 a margin for the controller's other calls.
const sustainedMints = 150

func checkGitHub(c *Config, _ machine) []Finding {
	var out []Finding
	if !c.GitHub.PollFallback {
		out = append(out, Finding{
			Severity: Warning, Code: CodePollOff, Key: "github.poll_fallback",
			Title: "The fallback poller is off.",
			Why:   "A job whose webhook is lost waits until its run is cancelled, and nothing says so.",
			Fix:   "Set github.poll_fallback to true. It asks nothing while webhooks arrive.",
		})
	}
	if c.GitHub.MintsPerMinute > sustainedMints {
		out = append(out, Finding{
			Severity: Warning, Code: CodeMintsHigh, Key: "github.mints_per_minute",
			Title: fmt.Sprintf("Up to %d registrations a minute are asked of GitHub.", c.GitHub.MintsPerMinute),
			Why:   "GitHub allows 10,000 an hour. Past that it refuses every runner for the rest of the hour.",
			Fix:   fmt.Sprintf("Set github.mints_per_minute to %d or less.", sustainedMints),
		})
	}
	return out
}

// checkStart holds the bounds on a runner's start in order: what the host and the runner may
// take, then the timeout that gives up, then the lease that offers the create again.
func checkStart(c *Config, _ machine) []Finding {
	var out []Finding
	timeout, least := c.Scheduler.ProvisionTimeout, c.Runners.CreateTimeout+c.Runners.DockerWait
	if timeout <= least {
		out = append(out, Finding{
			Severity: Warning, Code: CodeProvisionShort, Key: "scheduler.provision_timeout",
			Title: fmt.Sprintf("A runner is given up after %s, and may rightly take %s to start.", timeout, least),
			Why:   "A runner that does what it was told to do is failed and replaced, again and again.",
			Fix: fmt.Sprintf("Set scheduler.provision_timeout above %s, the sum of runners.create_timeout and runners.docker_wait, "+
				"or lower one of those.", least),
		})
	}
	if timeout > CreateLease {
		out = append(out, Finding{
			Severity: Warning, Code: CodeProvisionLong, Key: "scheduler.provision_timeout",
			Title: fmt.Sprintf("A runner may take %s to start, and its create is offered again after %s.", timeout, CreateLease),
			Why:   "A host that lost a create may be asked again for a runner that nothing waits for any more.",
			Fix:   fmt.Sprintf("Set scheduler.provision_timeout to %s or less.", CreateLease),
		})
	}
	return out
}

// quietestHeartbeat is the longest interval at which one late heartbeat still does not make a
// host unhealthy.
const quietestHeartbeat = HeartbeatTimeout / 2

func checkAgent(c *Config, m machine) []Finding {
	var out []Finding
	if c.Agent.HeartbeatInterval > quietestHeartbeat {
		out = append(out, Finding{
			Severity: Warning, Code: CodeHeartbeatSlow, Key: "agent.heartbeat_interval",
			Title: fmt.Sprintf("Agents are heard from only every %s.", c.Agent.HeartbeatInterval),
			Why:   fmt.Sprintf("A host is unhealthy after %s of silence, so one late heartbeat takes it out of service.", HeartbeatTimeout),
			Fix:   fmt.Sprintf("Set agent.heartbeat_interval to %s or less.", quietestHeartbeat),
		})
	}
	if !c.Agent.Embedded {
		return out
	}
	if len(c.Agent.Backends) == 0 {
		out = append(out, Finding{
			Severity: Error, Code: CodeNoBackend, Key: "agent.backends",
			Title: "The embedded agent has no backend.",
			Why:   "It could start no runner.",
			Fix:   "Set agent.backends to podman, or agent.embedded to false.",
		})
	}
	if slices.Contains(c.Agent.Backends, "process") {
		out = append(out, Finding{
			Severity: Warning, Code: CodeBackendProcess, Key: "agent.backends",
			Title: "Jobs of process pools run on this machine without a container.",
			Why:   "Such a job can read whatever the agent's user can, and leave processes and files behind for the next one.",
			Fix:   "Take process out of agent.backends, unless every workflow that can reach it is trusted.",
		})
	}
	if slices.Contains(c.Agent.Backends, "docker") {
		out = append(out, Finding{
			Severity: Warning, Code: CodeBackendDocker, Key: "agent.backends",
			Title: "The embedded agent uses Docker's daemon, which runs as root.",
			Why:   "A job that leaves its container is root on this machine.",
			Fix:   "Use podman, which needs no root, or run Docker in its rootless mode.",
		})
	}
	if m.userSocket != "" && c.Agent.PodmanSocket != "" && c.Agent.PodmanSocket != m.userSocket && !strings.HasPrefix(c.Agent.PodmanSocket, "/run/user/") {
		if _, err := m.stat(m.userSocket); err == nil {
			out = append(out, Finding{
				Severity: Warning, Code: CodeRootfulSocket, Key: "agent.podman_socket",
				Title: fmt.Sprintf("Podman is used through %s, though this user has a Podman of its own.", c.Agent.PodmanSocket),
				Why:   "Behind the system's socket a job that leaves its container is root on this machine.",
				Fix:   "Remove agent.podman_socket, or set it to " + m.userSocket + ".",
			})
		}
	}
	return out
}

// secretWords in a variable's name say that its value is likely a secret.
var secretWords = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PRIVATE_KEY", "API_KEY", "ACCESS_KEY", "CREDENTIAL"}

func checkRunnerEnv(c *Config, _ machine) []Finding {
	var out []Finding
	for _, name := range sortedKeys(c.Runners.Env) {
		upper := strings.ToUpper(name)
		switch {
		case strings.HasPrefix(upper, EnvPrefix):
			out = append(out, Finding{
				Severity: Warning, Code: CodeRunnerReservedName, Key: "runners.env",
				Title: fmt.Sprintf("runners.env sets %s.", name),
				Why:   "Names with ZOOMIES_ are how the controller speaks to a runner; a fixed value can keep every runner from starting.",
				Fix:   "Use the setting of that purpose, such as runners.docker_wait.",
			})
		case slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(upper, w) }):
			out = append(out, Finding{
				Severity: Warning, Code: CodeRunnerSecret, Key: "runners.env",
				Title: fmt.Sprintf("runners.env sets %s, which looks like a secret.", name),
				Why:   "Every job of every repository can read a runner's environment.",
				Fix:   "Keep it as a secret at GitHub, where a repository or an environment owns it.",
			})
		}
	}
	return out
}

func checkUnknown(c *Config, _ machine) []Finding {
	var out []Finding
	for _, u := range c.unknown {
		f := Finding{Severity: Warning, Why: "It has no effect."}
		if u.source.Layer == FromEnvironment {
			f.Code, f.Title = CodeUnknownVariable, fmt.Sprintf("The variable %s names no setting%s.", u.name, orDidYouMean(u.hint))
			f.Fix = "Correct its name or unset it."
		} else {
			f.Code, f.Title = CodeUnknownDatabaseKey, fmt.Sprintf("The database sets %s, which this version does not know%s.", u.name, orDidYouMean(u.hint))
			f.Fix = "Nothing, if another version of Zoomies wrote it."
		}
		out = append(out, f)
	}
	return out
}

func orDidYouMean(hint string) string {
	if hint == "" {
		return ""
	}
	return "; perhaps " + hint + " was meant"
}
