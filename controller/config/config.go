// Package config holds every setting of the controller: one declared registry, and the four
// layers that fill it (defaults, zoomies.yaml, the database, the environment), later ones
// winning. It knows where each value came from, and Validate names every deviation from the
// safe defaults.
//
// It must never open the database or read a secret: the caller hands it the database's
// layer, and a secret is a file that a setting only names.
package config

import (
	"path/filepath"
	"time"
)

// Config is the settings in force. Fields mirror the registry's keys; a test holds the two
// together.
type Config struct {
	DataDir   string    `koanf:"data_dir"`
	Listen    string    `koanf:"listen"`
	PublicURL string    `koanf:"public_url"`
	TLS       TLS       `koanf:"tls"`
	HTTP      HTTP      `koanf:"http"`
	Secrets   Secrets   `koanf:"secrets"`
	Log       Log       `koanf:"log"`
	Metrics   Metrics   `koanf:"metrics"`
	GitHub    GitHub    `koanf:"github"`
	Scheduler Scheduler `koanf:"scheduler"`
	Agent     Agent     `koanf:"agent"`
	Runners   Runners   `koanf:"runners"`
	Provider  Provider  `koanf:"provider"`

	file    string // the file that was read; empty for none
	sources map[string]Source
	unknown []unknownName
}

// TLS is what the listener proves itself with.
type TLS struct {
	Mode     string `koanf:"mode"` // as set; Serves resolves it
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
}

// HTTP is what stands in front of the listener.
type HTTP struct {
	TrustedProxies []string `koanf:"trusted_proxies"` // as set; Proxies reads them
}

// Secrets says where the sealing keys are.
type Secrets struct {
	KeyFile string `koanf:"key_file"`
}

// Log is how the controller logs.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Metrics is who may read the metrics.
type Metrics struct {
	Public bool `koanf:"public"`
}

// GitHub is how GitHub is asked.
type GitHub struct {
	PollFallback   bool          `koanf:"poll_fallback"`
	PollInterval   time.Duration `koanf:"poll_interval"`
	MintsPerMinute int           `koanf:"mints_per_minute"`
	JobRecheck     time.Duration `koanf:"job_recheck"`
}

// Scheduler is the scheduler's tunables.
type Scheduler struct {
	ProvisionTimeout  time.Duration `koanf:"provision_timeout"`
	MaxRunnerLifetime time.Duration `koanf:"max_runner_lifetime"`
	Tick              time.Duration `koanf:"tick"`
	TickBudget        int           `koanf:"tick_budget"`
}

// Agent is the embedded agent, and what the controller tells all agents.
type Agent struct {
	Embedded          bool          `koanf:"embedded"`
	Capacity          int           `koanf:"capacity"` // as set; Slots resolves 0
	Backends          []string      `koanf:"backends"`
	PodmanSocket      string        `koanf:"podman_socket"`
	HeartbeatInterval time.Duration `koanf:"heartbeat_interval"`
	FinishedRetention time.Duration `koanf:"finished_retention"`
}

// Slots is how many runners the embedded agent's machine holds: Capacity, or one for each
// core.
func (a Agent) Slots() int {
	if a.Capacity == 0 {
		return DefaultCapacity()
	}
	return a.Capacity
}

// Runners is what every runner is given.
type Runners struct {
	CreateTimeout time.Duration     `koanf:"create_timeout"`
	DockerWait    time.Duration     `koanf:"docker_wait"`
	Env           map[string]string `koanf:"env"`
}

// Provider is how machines are rented.
type Provider struct {
	Enabled       bool          `koanf:"enabled"`
	MaxMachines   int           `koanf:"max_machines"`
	CreateTimeout time.Duration `koanf:"create_timeout"`
	BootTimeout   time.Duration `koanf:"boot_timeout"`
	EnrolTimeout  time.Duration `koanf:"enrol_timeout"`
	DeleteTimeout time.Duration `koanf:"delete_timeout"`
	SweepInterval time.Duration `koanf:"sweep_interval"`
}

// DatabaseFile is the path of the database.
func (c *Config) DatabaseFile() string { return filepath.Join(c.DataDir, "zoomies.db") }

// KeyFile is the path of the sealing keys, secrets.key_file or its default in the data folder.
func (c *Config) KeyFile() string {
	if c.Secrets.KeyFile != "" {
		return c.Secrets.KeyFile
	}
	return filepath.Join(c.DataDir, "zoomies.keys")
}

// Layer is one of the four places a value can come from.
type Layer string

// The layers, weakest first.
const (
	FromDefault     Layer = "default"
	FromFile        Layer = "file"
	FromDatabase    Layer = "database"
	FromEnvironment Layer = "environment"
)

// Source says where a value came from.
type Source struct {
	Layer Layer
	Where string // "zoomies.yaml:12", the variable's name, or the key itself
}

// String is a phrase for a listing: "file zoomies.yaml:12".
func (s Source) String() string {
	if s.Where == "" {
		return string(s.Layer)
	}
	return string(s.Layer) + " " + s.Where
}

// Source says where the value of key came from. A key that does not exist has the zero Source.
func (c *Config) Source(key string) Source {
	if s, ok := c.sources[key]; ok {
		return s
	}
	if _, ok := byKey[key]; ok {
		return Source{Layer: FromDefault}
	}
	return Source{}
}

// unknownName is a variable or a database key that is ours by its form and names no setting.
type unknownName struct {
	source Source
	name   string
	hint   string
}
