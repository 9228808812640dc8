package controller

import (
	"maps"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/machines"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
)

// Settings are what an operator may change, already validated. All of them may change while the controller runs (Apply).
type Settings struct {
	Tick              time.Duration // net under the events of the reconcile loop
	HeartbeatInterval time.Duration
	FinishedRetention time.Duration
	Scheduler         scheduler.Tunables
	CreateTimeout     time.Duration
	DaemonWait        time.Duration
	RunnerEnv         map[string]string
	PollFallback      bool
	PollInterval      time.Duration
	JobRecheck        time.Duration
	MaxWebhookBody    int64
	HistoryRetention  time.Duration // ended rows older than this are pruned
	Machines          plan.Limits
	SweepInterval     time.Duration // of a provider
}

// DefaultSettings are the settings of a fleet nobody has configured.
func DefaultSettings() Settings {
	return Settings{
		Tick:              10 * time.Second,
		HeartbeatInterval: 30 * time.Second,
		Scheduler:         scheduler.DefaultTunables(),
		CreateTimeout:     10 * time.Minute,
		DaemonWait:        3 * time.Minute,
		PollFallback:      true,
		PollInterval:      time.Minute,
		JobRecheck:        5 * time.Minute,
		MaxWebhookBody:    5 << 20,
		HistoryRetention:  14 * 24 * time.Hour,
		Machines:          plan.DefaultLimits(),
		SweepInterval:     machines.SweepInterval,
	}
}

// SettingsOf takes from a configuration what the controller's loops read.
func SettingsOf(cfg *config.Config) Settings {
	s := DefaultSettings()
	s.Tick = cfg.Scheduler.Tick
	s.HeartbeatInterval = cfg.Agent.HeartbeatInterval
	s.FinishedRetention = cfg.Agent.FinishedRetention
	s.Scheduler.ProvisionTimeout = cfg.Scheduler.ProvisionTimeout
	s.Scheduler.MaxLifetime = cfg.Scheduler.MaxRunnerLifetime
	s.Scheduler.TickBudget = cfg.Scheduler.TickBudget
	s.CreateTimeout = cfg.Runners.CreateTimeout
	s.DaemonWait = cfg.Runners.DockerWait
	s.RunnerEnv = cfg.Runners.Env
	s.PollFallback = cfg.GitHub.PollFallback
	s.PollInterval = cfg.GitHub.PollInterval
	s.JobRecheck = cfg.GitHub.JobRecheck
	s.Machines.Enabled = cfg.Provider.Enabled
	s.Machines.MaxMachines = cfg.Provider.MaxMachines
	s.Machines.Create = cfg.Provider.CreateTimeout
	s.Machines.Boot = cfg.Provider.BootTimeout
	s.Machines.Enrol = cfg.Provider.EnrolTimeout
	s.Machines.Delete = cfg.Provider.DeleteTimeout
	s.SweepInterval = cfg.Provider.SweepInterval
	return s
}

// Apply has every loop use s from its next pass on, and begins that now. What is under way ends with what it began with.
func (c *Controller) Apply(s Settings) {
	s.RunnerEnv = maps.Clone(s.RunnerEnv)
	c.set.Store(&s)
	c.reconcile.Set()
	c.provision.Set()
	c.poll.Set()
	if c.rented != nil {
		c.rented.Wake()
	}
}

// settings are the settings as they are now. A pass that needs several that belong together reads them once. They are shared: not to
// be changed.
func (c *Controller) settings() Settings { return *c.set.Load() }
