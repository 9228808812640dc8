package controller

import (
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/machines"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/tasks"
)

// relation says that one constant must be at least another.
type relation struct {
	what        string
	long, short time.Duration
	why         string
}

func check(t *testing.T, rs []relation) {
	t.Helper()
	for _, r := range rs {
		if r.long < r.short {
			t.Errorf("%s: %s is less than %s: %s", r.what, r.long, r.short, r.why)
		}
	}
}

func TestInvariantsSilenceLadder(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	check(t, []relation{
		{"heartbeat timeout ≥ 3 intervals", s.Scheduler.HeartbeatTimeout, 3 * s.HeartbeatInterval, "one slow heartbeat must never make a host unhealthy"},
		{"heartbeat timeout ≥ 2 heartbeats with slow probes", s.Scheduler.HeartbeatTimeout, 2 * (s.HeartbeatInterval + agent.ProbeTimeout), "an engine that answers late must not make its host unhealthy"},
		{"host lost after it is unhealthy", HostLostAfter - time.Second, s.Scheduler.HeartbeatTimeout, "no runner may be failed on a host that is still being given new ones"},
		{"the settings' idea of it", s.Scheduler.HeartbeatTimeout, config.HeartbeatTimeout, "settings are judged by it"},
		{"and the other way round", config.HeartbeatTimeout, s.Scheduler.HeartbeatTimeout, "settings are judged by it"},
		{"the agent's own pace until told", agent.HeartbeatInterval, s.HeartbeatInterval, "both halves must start from one number"},
		{"host lost ≥ 2 housekeeping ticks", HostLostAfter, 2 * HousekeepingTick, "silence is judged on the tick"},
	})
}

func TestInvariantsLeasesOutlastTheirWork(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	lease := func(k protocol.TaskKind) time.Duration { return tasks.Lease(string(k)) }
	check(t, []relation{
		{"create lease > create timeout", lease(protocol.TaskCreate) - time.Second, s.CreateTimeout, "a create must not be offered again while the first is under way"},
		{"create lease > the agent's own create timeout", lease(protocol.TaskCreate) - time.Second, agent.CreateTimeout, "the same, for a task that names no bound"},
		{"the settings' idea of it", lease(protocol.TaskCreate), config.CreateLease, "settings are judged by it"},
		{"and the other way round", config.CreateLease, lease(protocol.TaskCreate), "settings are judged by it"},
		{"stop lease > grace + margin", lease(protocol.TaskStop) - time.Second, StopGrace + agent.StopMargin, "a stop must not be offered again while the first is under way"},
		{"remove lease > remove timeout", lease(protocol.TaskRemove) - time.Second, agent.RemoveTimeout, "a remove must not be offered again while the first is under way"},
		{"prewarm lease > prewarm timeout", lease(protocol.TaskPrewarm) - time.Second, agent.PrewarmTimeout, "a prewarm must not be offered again while the first is under way"},
	})
	for _, k := range []protocol.TaskKind{protocol.TaskCreate, protocol.TaskStop, protocol.TaskRemove} {
		if n := tasks.Offers(string(k)); n != 3 {
			t.Errorf("%s is offered %d times, want 3", k, n)
		}
	}
	if n := tasks.Offers(string(protocol.TaskStreamLogs)); n != 1 {
		t.Errorf("a log relay is offered %d times: its viewer is long gone", n)
	}
}

func TestInvariantsStartIsGivenLongEnough(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	check(t, []relation{
		{"provision timeout > create timeout + daemon wait", s.Scheduler.ProvisionTimeout - time.Second, s.CreateTimeout + s.DaemonWait, "the bound that gives up must be the most patient"},
		{"provision timeout ≤ create lease", tasks.CreateLease, s.Scheduler.ProvisionTimeout, "no runner may be failed with its create neither redelivered nor abandoned"},
		{"failed retention ≥ longest backoff", s.Scheduler.FailedRetention, s.Scheduler.MaxStartBackoff, "the failures that a wait is computed from must outlive it"},
		{"half the provision timeout > daemon wait", s.Scheduler.ProvisionTimeout / 2, s.DaemonWait, "a runner that waits for its daemon as told is not stuck"},
		{"orphan grace ≥ missing grace", agent.OrphanGrace, agent.MissingGrace, "what a list may omit for a moment is no orphan"},
	})
}

func TestInvariantsRetention(t *testing.T) {
	t.Parallel()
	d := scheduler.DefaultTunables()
	want := map[string][2]time.Duration{
		"provision timeout": {d.ProvisionTimeout, 20 * time.Minute},
		"failed retention":  {d.FailedRetention, 10 * time.Minute},
		"start backoff":     {d.StartBackoff, 10 * time.Second},
		"longest backoff":   {d.MaxStartBackoff, 5 * time.Minute},
		"heartbeat timeout": {d.HeartbeatTimeout, 90 * time.Second},
		"longest hold":      {github.MaxHold, time.Hour},
		"lost after":        {HostLostAfter, 5 * time.Minute},
		"reap interval":     {ReapInterval, 10 * time.Minute},
		"drain grace":       {DrainGrace, 5 * time.Minute},
		"shutdown grace":    {agent.ShutdownGrace, 30 * time.Second},
	}
	for name, v := range want {
		if v[0] != v[1] {
			t.Errorf("%s is %s, the specification says %s", name, v[0], v[1])
		}
	}
	if github.MintsPerMinute >= 166 {
		t.Errorf("%d mints a minute reach GitHub's own ceiling", github.MintsPerMinute)
	}
}

// A machine is given longer at each stage than what it waits for there, and its traces outlive whatever may still come of it.
func TestInvariantsMachines(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	l := s.Machines
	check(t, []relation{
		{"create limit > several calls", l.Create - time.Second, 3 * machines.CallLimit, "one call that hangs must not be the end of a machine"},
		{"delete limit > create limit", l.Delete, l.Create, "what was half made may have to be waited for before it can be deleted"},
		{"join token ≥ the stages that it is for", machines.TokenLife(l), l.Create + l.Boot + l.Enrol, "a machine that is still waited for must be able to join"},
		{"and no longer", l.Create + l.Boot + l.Enrol, machines.TokenLife(l), "a secret that lies on a drive must be short"},
		{"a failed machine stays > two calls", l.Failed - time.Second, 2 * machines.CallLimit, "a create whose answer was lost may still take effect"},
		{"a lost host's machine stays > host lost", l.Lost - time.Second, HostLostAfter, "a host that is back within minutes must find its machine"},
		{"enrol limit > a slow heartbeat", l.Enrol - time.Second, s.Scheduler.HeartbeatTimeout, "a guest that tries again must have the time to"},
		{"tombstone > sweep", machines.Tombstone - time.Second, machines.SweepInterval, "a list that is late must not give an identity to another"},
		{"history ≥ tombstone", s.HistoryRetention, machines.Tombstone, "a tombstone is a row"},
		{"longest rest ≥ first", l.MaxStandDown, l.StandDown, "rests widen"},
		{"sweeps as set", s.SweepInterval, machines.SweepInterval, "the settings' idea of it"},
		{"interval ≤ sweep", machines.SweepInterval, machines.Interval, "the net must be finer than the sweep"},
	})
	cfg, err := config.Load(config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := SettingsOf(cfg); got.Machines != l || got.SweepInterval != s.SweepInterval {
		t.Errorf("the settings' defaults are %+v, the planner's %+v", got.Machines, l)
	}
	if l.Enabled || l.MaxMachines != 0 {
		t.Error("a fleet that nobody has configured must rent nothing")
	}
}

// A43: images go long before a host is closed for its disk, and none goes that is about to be used.
func TestInvariantsDisk(t *testing.T) {
	t.Parallel()
	if agent.EvictDownTo >= agent.EvictAbove || agent.EvictAbove >= scheduler.DiskDanger || scheduler.DiskDanger >= 100 {
		t.Errorf("eviction from %d %% down to %d %%, no new runners from %d %%", agent.EvictAbove, agent.EvictDownTo, scheduler.DiskDanger)
	}
	check(t, []relation{
		{"images are kept > create timeout", agent.ImageKeep, agent.CreateTimeout, "an image that was fetched for a create must be there for it"},
		{"images are kept > prewarm reuse", agent.ImageKeep, agent.PrewarmReuse, "a preparation that answers for another must not be undone"},
	})
}
