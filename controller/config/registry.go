package config

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// Kind says how a setting's text is read.
type Kind string

// The kinds of setting.
const (
	String   Kind = "string"
	Int      Kind = "int"
	Bool     Kind = "bool"
	Duration Kind = "duration" // Go's form: 90s, 5m, 1h30m
	List     Kind = "list"     // a YAML sequence, or words with commas between them
	Map      Kind = "map"      // a YAML mapping, or NAME=value with commas between, or a JSON object
	// SecretFile is the path of a file that holds a secret. The secret itself is never a
	// setting, so that it reaches neither the database, the environment nor a listing.
	SecretFile Kind = "secret-file"
)

// Effect says when a changed value counts.
type Effect string

// The effects.
const (
	Restart Effect = "restart" // from the next start of the controller
	Live    Effect = "live"    // from the next pass of the loop that reads it
)

// Setting is one row of the registry.
type Setting struct {
	Key     string // dotted, lower case: github.poll_interval
	Kind    Kind
	Default string // in the form the environment takes; it must parse
	// Floor and Ceiling bound an int or a duration, both inclusive, in the same form as
	// Default. Empty is no bound.
	Floor, Ceiling string
	Values         []string // the only words allowed (string and list); nil allows all
	Summary        string   // one or two sentences, for the docs and the CLI
	Effect         Effect
	Group          string
	// Early is set for a setting that is needed before the database can be opened: it
	// cannot be given there.
	Early bool
}

// Env is the variable that sets s: ZOOMIES_ and the key in capitals.
func (s Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// EnvPrefix begins the name of every variable that is ours.
const EnvPrefix = "ZOOMIES_"

// DefaultFile is where a controller looks for its file when it was not told of another one.
const DefaultFile = "/etc/zoomies/zoomies.yaml"

// FindFile returns the settings file to load: named when that is not empty, else DefaultFile
// where it exists, else nothing.
func FindFile(named string) string {
	if named != "" {
		return named
	}
	if _, err := os.Stat(DefaultFile); err != nil {
		return ""
	}
	return DefaultFile
}

// InternalPrefix begins the names of what the controller itself keeps beside the settings in
// the database. They are no settings, and Load leaves them alone.
const InternalPrefix = "internal."

// Constants that settings are checked against. The controller uses these same values.
const (
	// HeartbeatTimeout is how long after its last heartbeat a host counts as unhealthy.
	HeartbeatTimeout = 90 * time.Second
	// CreateLease is how long a host holds a create before it is offered again.
	CreateLease = 20 * time.Minute
)

// Registry returns every setting, group by group, in the order in which to show them.
func Registry() []Setting {
	out := make([]Setting, len(registry))
	copy(out, registry)
	return out
}

// DefaultCapacity is what agent.capacity 0 means on this machine: one runner for each core.
func DefaultCapacity() int { return runtime.NumCPU() }

var registry = []Setting{
	{
		Key: "data_dir", Kind: String, Default: "/var/lib/zoomies", Effect: Restart, Group: "Controller", Early: true,
		Summary: "Folder of the database, the key file and the embedded agent's credentials.",
	},
	{
		Key: "listen", Kind: String, Default: "127.0.0.1:8080", Effect: Restart, Group: "Controller",
		Summary: "Address and port of webhooks, the agent API, health and metrics. Port 0 takes any free port.",
	},
	{
		Key: "public_url", Kind: String, Effect: Restart, Group: "Controller",
		Summary: "Address by which browsers and GitHub reach the controller, such as https://zoomies.example.org. " +
			"A GitHub App is made with it, and its webhook is compared with it.",
	},
	{
		Key: "tls.mode", Kind: String, Default: modeAuto, Values: []string{modeAuto, modeFiles, modeOff}, Effect: Restart, Group: "Controller",
		Summary: "How the listener serves TLS. auto takes tls.cert_file where it is set; else, beyond the loopback, " +
			"a certificate from an authority that the controller makes in data_dir. off serves plain HTTP.",
	},
	{
		Key: "tls.cert_file", Kind: String, Effect: Restart, Group: "Controller",
		Summary: "PEM certificate chain to serve TLS with. Needs tls.key_file. Both are read again when they change.",
	},
	{
		Key: "tls.key_file", Kind: SecretFile, Effect: Restart, Group: "Controller",
		Summary: "PEM private key of tls.cert_file.",
	},
	{
		Key: "http.trusted_proxies", Kind: List, Effect: Restart, Group: "Controller",
		Summary: "Addresses or networks of proxies in front of the controller. X-Forwarded-For is believed from them alone.",
	},
	{
		Key: "secrets.key_file", Kind: SecretFile, Effect: Restart, Group: "Controller", Early: true,
		Summary: "File with the keys that seal secrets in the database, made on the first start. " +
			"Empty is zoomies.keys in data_dir. Keep it apart from copies of the database.",
	},
	{
		Key: "log.level", Kind: String, Default: "info", Values: []string{"debug", "info", "warn", "error"}, Effect: Restart, Group: "Controller",
		Summary: "The least severe message that is logged.",
	},
	{
		Key: "log.format", Kind: String, Default: "text", Values: []string{"text", "json"}, Effect: Restart, Group: "Controller",
		Summary: "Form of the log lines.",
	},
	{
		Key: "metrics.public", Kind: Bool, Default: "false", Effect: Restart, Group: "Controller",
		Summary: "Shows /metrics to whoever can reach it. Otherwise it needs an API token with the scope metrics:read.",
	},

	{
		Key: "github.poll_fallback", Kind: Bool, Default: "true", Effect: Live, Group: "GitHub",
		Summary: "Asks GitHub for queued jobs at an interval, for each installation whose webhooks do not arrive.",
	},
	{
		Key: "github.poll_interval", Kind: Duration, Default: "1m", Floor: "10s", Ceiling: "1h", Effect: Live, Group: "GitHub",
		Summary: "Time between two polls of one installation. It bounds how late a job starts whose webhook was lost.",
	},
	{
		Key: "github.mints_per_minute", Kind: Int, Default: "150", Floor: "1", Ceiling: "180", Effect: Restart, Group: "GitHub",
		Summary: "Runner registrations asked of GitHub in a minute, for each App. GitHub itself stops at about 166 a minute sustained.",
	},
	{
		Key: "github.job_recheck", Kind: Duration, Default: "5m", Floor: "1m", Ceiling: "1h", Effect: Live, Group: "GitHub",
		Summary: "How long a job that has not ended may go unheard of before GitHub is asked about it.",
	},

	{
		Key: "scheduler.provision_timeout", Kind: Duration, Default: "20m", Floor: "1m", Ceiling: "2h", Effect: Live, Group: "Scheduler",
		Summary: "How long a runner may take from its row until it is online at GitHub. Then it is failed and replaced.",
	},
	{
		Key: "scheduler.max_runner_lifetime", Kind: Duration, Default: "0s", Floor: "0s", Effect: Live, Group: "Scheduler",
		Summary: "Age at which an idle runner is retired. 0s is never. A busy runner is never touched.",
	},
	{
		Key: "scheduler.tick", Kind: Duration, Default: "10s", Floor: "1s", Ceiling: "5m", Effect: Live, Group: "Scheduler",
		Summary: "Longest time between two scheduling passes. Events start a pass at once; this only catches what they missed.",
	},
	{
		Key: "scheduler.tick_budget", Kind: Int, Default: "0", Floor: "0", Effect: Live, Group: "Scheduler",
		Summary: "Most runners that one pass creates. 0 is no limit.",
	},

	{
		Key: "agent.embedded", Kind: Bool, Default: "true", Effect: Restart, Group: "Agent",
		Summary: "Runs an agent inside the controller, so that one machine is a whole fleet.",
	},
	{
		Key: "agent.capacity", Kind: Int, Default: "0", Floor: "0", Ceiling: "1000", Effect: Restart, Group: "Agent",
		Summary: "Runners that the embedded agent's machine holds at once. 0 is one for each core.",
	},
	{
		Key: "agent.backends", Kind: List, Default: "podman", Values: []string{"podman", "docker", "process"}, Effect: Restart, Group: "Agent",
		Summary: "What the embedded agent may start runners with: podman, docker, process.",
	},
	{
		Key: "agent.podman_socket", Kind: String, Effect: Restart, Group: "Agent",
		Summary: "Path of Podman's API socket. Empty finds it: the user's own socket first, then the system's.",
	},
	{
		Key: "agent.heartbeat_interval", Kind: Duration, Default: "30s", Floor: "1s", Ceiling: "90s", Effect: Live, Group: "Agent",
		Summary: "Time between two heartbeats of every agent. A host is unhealthy 90 s after its last one.",
	},
	{
		Key: "agent.finished_retention", Kind: Duration, Default: "0s", Floor: "0s", Ceiling: "24h", Effect: Live, Group: "Agent",
		Summary: "How long a host keeps a finished runner's container after the controller has recorded its end.",
	},

	{
		Key: "runners.create_timeout", Kind: Duration, Default: "10m", Floor: "30s", Ceiling: "20m", Effect: Live, Group: "Runners",
		Summary: "How long a host may take to fetch the image and start the container of one runner.",
	},
	{
		Key: "runners.docker_wait", Kind: Duration, Default: "180s", Floor: "1s", Ceiling: "1h", Effect: Live, Group: "Runners",
		Summary: "How long a runner waits for its pool's Docker or Podman daemon before it gives up.",
	},
	{
		Key: "runners.env", Kind: Map, Effect: Live, Group: "Runners",
		Summary: "Environment of every runner. A pool's own environment goes before it. Every job can read it: no secrets.",
	},

	{
		Key: "provider.enabled", Kind: Bool, Default: "false", Effect: Live, Group: "Rented machines",
		Summary: "Rents machines from the providers when the hosts that there are have no room. Off, no machine is made; those that there are go on, and are given back as ever.",
	},
	{
		Key: "provider.max_machines", Kind: Int, Default: "0", Floor: "0", Ceiling: "1000", Effect: Live, Group: "Rented machines",
		Summary: "Most rented machines that exist at once, of all providers together. 0 rents nothing. Each provider has a limit of its own beside it.",
	},
	{
		Key: "provider.create_timeout", Kind: Duration, Default: "30m", Floor: "5m", Ceiling: "4h", Effect: Live, Group: "Rented machines",
		Summary: "How long a machine may take from its row until it is powered on. Then it is given up, once it is known what became of it.",
	},
	{
		Key: "provider.boot_timeout", Kind: Duration, Default: "10m", Floor: "1m", Ceiling: "1h", Effect: Live, Group: "Rented machines",
		Summary: "How long a machine may take from its power-on until it is first heard from.",
	},
	{
		Key: "provider.enrol_timeout", Kind: Duration, Default: "5m", Floor: "1m", Ceiling: "1h", Effect: Live, Group: "Rented machines",
		Summary: "How long a machine that has been heard from may take to join.",
	},
	{
		Key: "provider.delete_timeout", Kind: Duration, Default: "1h", Floor: "10m", Ceiling: "24h", Effect: Live, Group: "Rented machines",
		Summary: "How long a machine may take to be proved gone. Then it is quarantined: an operator has to look.",
	},
	{
		Key: "provider.sweep_interval", Kind: Duration, Default: "10m", Floor: "1m", Ceiling: "1h", Effect: Live, Group: "Rented machines",
		Summary: "Time between two comparisons of what is at a provider with the machines that are known.",
	},
}

var byKey = func() map[string]Setting {
	m := make(map[string]Setting, len(registry))
	for _, s := range registry {
		m[s.Key] = s
	}
	return m
}()
