package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The environment that the entrypoint reads.
const (
	EnvJITConfig = "ZOOMIES_JITCONFIG"     // secret: base64, registers exactly one runner
	EnvURL       = "ZOOMIES_RUNNER_URL"    // with the next four: a runner that is not ephemeral
	EnvToken     = "ZOOMIES_RUNNER_TOKEN"  // secret: the registration token
	EnvName      = "ZOOMIES_RUNNER_NAME"   // the runner's name at GitHub
	EnvLabels    = "ZOOMIES_RUNNER_LABELS" // comma-separated
	EnvGroup     = "ZOOMIES_RUNNER_GROUP"  // empty is GitHub's default group
	EnvCommand   = "ZOOMIES_RUNNER_COMMAND"
	EnvDaemon    = "ZOOMIES_DAEMON"      // docker, podman, or none
	EnvWait      = "ZOOMIES_DOCKER_WAIT" // seconds, 1 to 3600

	envDockerHost    = "DOCKER_HOST"
	envContainerHost = "CONTAINER_HOST"
	envTLS           = "DOCKER_TLS_VERIFY"
)

// The runner takes any option of its command line from the environment under this prefix,
// masks the secret ones in its log, and removes them from the environment that steps see
// (actions/runner src/Runner.Listener/CommandSettings.cs, the constructor and GetEnvArg;
// src/Runner.Common/Constants.cs lists jitconfig and token among the secrets).
const runnerInput = "ACTIONS_RUNNER_INPUT_"

// Kinds of daemon.
const (
	DaemonDocker = "docker"
	DaemonPodman = "podman"
)

const (
	defaultCommand = "/home/runner/run.sh"
	defaultWait    = 120 * time.Second
	minWaitSeconds = 1
	maxWaitSeconds = 3600
)

// Settings is what the environment asked for, checked.
type Settings struct {
	JIT          string       // cleaned; empty for a runner that is not ephemeral
	Registration Registration // set when JIT is empty
	Command      string       // the runner's program; config.sh lies beside it
	Daemon       string       // "", docker or podman
	DaemonWait   time.Duration
	Endpoint     Endpoint // where the daemon listens, when Daemon is set

	env []string // what the container was started with
}

// Registration is what config.sh needs. Token is a secret.
type Registration struct {
	URL, Token, Name, Labels, Group string
}

// ReadSettings reads and checks env. Its errors are sentences for the log and hold no secret.
func ReadSettings(env []string) (Settings, error) {
	get := lookup(env)
	s := Settings{Command: get(EnvCommand), DaemonWait: defaultWait, env: env}
	if s.Command == "" {
		s.Command = defaultCommand
	}
	if raw := get(EnvJITConfig); raw != "" {
		jit, err := CleanJIT(raw)
		if err != nil {
			return Settings{}, fmt.Errorf("%s cannot be used: %w; the runner must be created again", EnvJITConfig, err)
		}
		s.JIT = jit
	} else {
		reg, err := readRegistration(get)
		if err != nil {
			return Settings{}, err
		}
		s.Registration = reg
	}
	if err := readDaemon(&s, get); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func readRegistration(get func(string) string) (Registration, error) {
	reg := Registration{
		URL: cleanLine(get(EnvURL)), Token: cleanLine(get(EnvToken)), Name: cleanLine(get(EnvName)),
		Labels: strings.TrimSpace(get(EnvLabels)), Group: strings.TrimSpace(get(EnvGroup)),
	}
	if reg.URL == "" && reg.Token == "" && reg.Name == "" {
		return reg, fmt.Errorf("neither %s nor %s is set: there is no runner to start", EnvJITConfig, EnvURL)
	}
	for _, need := range []struct{ name, value string }{{EnvURL, reg.URL}, {EnvToken, reg.Token}, {EnvName, reg.Name}} {
		if need.value == "" {
			return reg, fmt.Errorf("%s is not set, and a runner without a JIT configuration needs it", need.name)
		}
	}
	return reg, nil
}

func readDaemon(s *Settings, get func(string) string) error {
	switch kind := strings.ToLower(strings.TrimSpace(get(EnvDaemon))); kind {
	case "", "none":
		return nil
	case DaemonDocker, DaemonPodman:
		s.Daemon = kind
	default:
		return fmt.Errorf("%s must be docker, podman or none", EnvDaemon)
	}
	if raw := strings.TrimSpace(get(EnvWait)); raw != "" {
		seconds, err := strconv.Atoi(raw)
		if err != nil || seconds < minWaitSeconds || seconds > maxWaitSeconds {
			return fmt.Errorf("%s must be a whole number of seconds from %d to %d", EnvWait, minWaitSeconds, maxWaitSeconds)
		}
		s.DaemonWait = time.Duration(seconds) * time.Second
	}
	host := get(envDockerHost)
	if host == "" && s.Daemon == DaemonPodman {
		host = get(envContainerHost)
	}
	endpoint, err := ParseEndpoint(host)
	if err != nil {
		return err
	}
	if get(envTLS) != "" && endpoint.Network == "tcp" {
		return fmt.Errorf("%s is set: the pool's daemon is reached without TLS, through a socket or the container's own network", envTLS)
	}
	s.Endpoint = endpoint
	return nil
}

// RunnerEnv is the environment of the runner: the container's own without the entrypoint's
// inputs, and the JIT configuration as the runner's own input.
func (s Settings) RunnerEnv() []string {
	env := s.baseEnv()
	if s.JIT != "" {
		env = append(env, runnerInput+"JITCONFIG="+s.JIT)
	}
	return env
}

// RegisterEnv is the environment of config.sh: the token travels in it, never as an argument.
func (s Settings) RegisterEnv() []string {
	r := s.Registration
	env := append(s.baseEnv(),
		runnerInput+"URL="+r.URL,
		runnerInput+"TOKEN="+r.Token,
		runnerInput+"NAME="+r.Name,
		runnerInput+"UNATTENDED=true",
		// A registration of that name is this runner's own, from an attempt whose answer was lost.
		runnerInput+"REPLACE=true",
	)
	if r.Labels != "" {
		env = append(env, runnerInput+"LABELS="+r.Labels)
	}
	if r.Group != "" {
		env = append(env, runnerInput+"RUNNERGROUP="+r.Group)
	}
	return env
}

// baseEnv is the container's environment without the entrypoint's inputs and without runner
// secrets from elsewhere, with the defaults that run.sh needs.
func (s Settings) baseEnv() []string {
	dropped := map[string]bool{
		EnvJITConfig: true, EnvURL: true, EnvToken: true, EnvName: true, EnvLabels: true, EnvGroup: true, EnvCommand: true,
	}
	env := make([]string, 0, len(s.env)+4)
	for _, pair := range s.env {
		name, _, _ := strings.Cut(pair, "=")
		if dropped[name] || strings.HasPrefix(name, runnerInput) {
			continue
		}
		env = append(env, pair)
	}
	get := lookup(env)
	for _, d := range []struct{ name, value string }{
		// Without the first, run.sh does not pass a stop signal on to the listener. Without the
		// second it hides exit code 7, "this runner version is deprecated", as a success.
		// (actions/runner src/Misc/layoutroot/run.sh)
		{"RUNNER_MANUALLY_TRAP_SIG", "1"},
		{"ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE", "1"},
	} {
		if get(d.name) == "" {
			env = append(env, d.name+"="+d.value)
		}
	}
	if s.Daemon == DaemonPodman && get(envContainerHost) == "" && get(envDockerHost) != "" {
		env = append(env, envContainerHost+"="+get(envDockerHost)) // what Podman's own client reads
	}
	return env
}

// configuredName is the name of the runner that is configured in dir, "" when none is.
func configuredName(dir string) (string, error) {
	file := filepath.Join(dir, ".runner")
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the runner's configuration: %w", err)
	}
	var config struct {
		AgentName string `json:"agentName"`
	}
	if err := json.Unmarshal(trimBOM(raw), &config); err != nil || config.AgentName == "" {
		return "", fmt.Errorf("cannot read the runner's configuration: %s is damaged; remove this runner's container", file)
	}
	return config.AgentName, nil
}

// lookup returns a getter over env; the last of two equal names wins, as in a process.
func lookup(env []string) func(string) string {
	values := make(map[string]string, len(env))
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			values[name] = value
		}
	}
	return func(name string) string { return values[name] }
}
