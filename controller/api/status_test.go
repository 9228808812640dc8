package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func (r *rig) fleetStatus(token string) api.Status {
	r.t.Helper()
	return into[api.Status](r.call(token, "GET", "/api/v1/status", nil).want(http.StatusOK))
}

// work writes a runner and its job, and two jobs that wait.
func (r *rig) work() {
	r.t.Helper()
	ctx := context.Background()
	rows := []store.Runner{{Name: "a", PoolID: r.seed.Pool.ID, HostID: r.seed.Host.ID, InstallationID: r.seed.Installation.ID, Ephemeral: true}}
	if err := r.store.CreateRunners(ctx, rows); err != nil {
		r.t.Fatal(err)
	}
	for _, to := range []store.RunnerState{store.RunnerRegistering, store.RunnerIdle} {
		if _, _, err := r.store.TransitionRunner(ctx, rows[0].ID, to, store.Change{}); err != nil {
			r.t.Fatal(err)
		}
	}
	for n, state := range []store.JobState{store.JobInProgress, store.JobQueued, store.JobQueued} {
		c, err := r.store.UpsertJob(ctx, store.JobUpdate{InstallationID: r.seed.Installation.ID, GitHubID: int64(n + 1), Repository: "acme/x", State: state})
		if err != nil {
			r.t.Fatal(err)
		}
		if n == 0 {
			if _, _, err := r.store.AssignJob(ctx, c.Job.ID, rows[0].ID); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func TestStatusCountsWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, _ := r.neighbour()
	r.work()
	r.now.step(time.Minute)
	if err := r.store.UpdatePool(context.Background(), func() store.Pool { p := r.seed.Pool; p.Max, p.PausedAt = 1, r.now.now(); return p }()); err != nil {
		t.Fatal(err)
	}
	all := r.fleetStatus(r.as("ada", over(auth.Viewer)))
	if all.Jobs != (api.StatusJobs{Queued: 2, InProgress: 1}) || all.Runners != (api.StatusRunners{Busy: 1}) || all.Hosts == nil || *all.Hosts != (api.StatusHosts{Healthy: 1, Slots: 10}) ||
		all.Pools != (api.StatusPools{Total: 2, AtMax: 1, Paused: 1}) || all.Version != "test" || all.Uptime != "1m0s" || len(all.Installations) != 2 {
		t.Errorf("all: %+v %+v", all, all.Hosts)
	}
	if all.Level != "attention" || all.Verdict != "2 jobs wait, and 1 pool is paused." {
		t.Errorf("verdict: %s %s", all.Level, all.Verdict)
	}
	pool := r.fleetStatus(r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID)))
	if pool.Jobs != (api.StatusJobs{InProgress: 1}) || pool.Runners.Busy != 1 || pool.Hosts != nil || pool.Pools.Total != 1 || len(pool.Installations) != 0 {
		t.Errorf("a pool's viewer sees %+v", pool)
	}
	other := r.fleetStatus(r.as("ivo", overInstallation(auth.Viewer, in.ID)))
	if other.Jobs != (api.StatusJobs{}) || other.Runners != (api.StatusRunners{}) || other.Pools.Total != 1 || len(other.Installations) != 1 || other.Installations[0].Webhooks != "never" {
		t.Errorf("a neighbour sees %+v", other)
	}
	r.call(r.as("nemo"), "GET", "/api/v1/status", nil).want(http.StatusForbidden)
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		prepare func(r *rig) error
		level   string
		says    string
	}{
		"nothing to do":    {func(*rig) error { return nil }, "ok", "nothing to do"},
		"at work":          {func(r *rig) error { r.work(); return nil }, "ok", "1 job runs and 2 wait for a runner."},
		"a warning":        {func(r *rig) error { r.fleet.problems.Raise("", problems.Problem{Code: problems.Unmatched}); return nil }, "attention", "1 warning: Queued jobs ask"},
		"errors go before": {func(r *rig) error { r.troubles(); return nil }, "broken", "2 errors: A host is lost, and 1 more."},
		"a cordoned host":  {func(r *rig) error { return r.store.SetHostCordoned(ctx, r.seed.Host.ID, true) }, "attention", "No host takes runners: 1 cordoned."},
		"a silent host":    {func(r *rig) error { r.now.step(config.HeartbeatTimeout + time.Second); return nil }, "attention", "1 silent"},
		"a host is lost and jobs wait": {func(r *rig) error { r.work(); return r.store.MarkHostLost(ctx, r.seed.Host.ID) },
			"broken", "2 jobs wait and no host can take one: 1 lost."},
		"no host": {func(r *rig) error { return r.store.DeleteHost(ctx, r.seed.Host.ID) }, "attention", "There is no host yet"},
		"no pool": {func(r *rig) error { return r.store.DeletePool(ctx, r.seed.Pool.ID) }, "attention", "There is no pool yet"},
		"no installation": {func(r *rig) error {
			_ = r.store.DeletePool(ctx, r.seed.Pool.ID)
			return r.store.DeleteInstallation(ctx, r.seed.Installation.ID)
		}, "attention", "Nothing is connected yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if err := c.prepare(r); err != nil {
				t.Fatal(err)
			}
			got := r.fleetStatus(r.as("ada", over(auth.Viewer)))
			if got.Level != c.level || !strings.Contains(got.Verdict, c.says) {
				t.Errorf("%s: %s", got.Level, got.Verdict)
			}
		})
	}
}
