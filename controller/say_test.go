package controller

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
)

// What keeps a pool or a job waiting is a problem with a name while it lasts, and only when somebody has to do something.
func TestWhatIsSaidOfAPass(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	snap := scheduler.Snapshot{
		Now: now, Tunables: scheduler.DefaultTunables(), Pools: []scheduler.Pool{{ID: "pool_1", Name: "linux"}},
		Runners: []scheduler.Runner{{ID: "run_1", PoolID: "pool_1", State: "registering", CreatedAt: now.Add(-10 * time.Minute)}},
	}
	blocked := func(b scheduler.Blocked) scheduler.Plan {
		return scheduler.Plan{Pools: []scheduler.PoolDecision{{PoolID: "pool_1", Blocked: &b}}}
	}
	young := snap
	young.Runners = []scheduler.Runner{{ID: "run_1", PoolID: "pool_1", State: "registering", CreatedAt: now.Add(-9 * time.Minute)}}
	for name, tt := range map[string]struct {
		snap scheduler.Snapshot
		plan scheduler.Plan
		want []problems.Code
	}{
		"nothing to say":                 {young, scheduler.Plan{}, nil},
		"a runner takes long":            {snap, scheduler.Plan{}, []problems.Code{problems.NotProgressing}},
		"hosts are merely full":          {young, blocked(scheduler.Blocked{Wanted: 1, AtCapacity: true}), nil},
		"a backoff ends by itself":       {young, blocked(scheduler.Blocked{Wanted: 1, Until: now.Add(time.Minute)}), nil},
		"no host fits":                   {young, blocked(scheduler.Blocked{Wanted: 1, Causes: []scheduler.Cause{{What: "cordoned", Hosts: 1}}}), []problems.Code{problems.PoolBlocked}},
		"a job of GitHub's own machines": {young, scheduler.Plan{Unmatched: []scheduler.Unmatched{{JobID: "job_1", Hosted: true}}}, nil},
		"a job that no pool can take":    {young, scheduler.Plan{Unmatched: []scheduler.Unmatched{{JobID: "job_1", Reason: "no pool has gpu"}}}, []problems.Code{problems.Unmatched}},
	} {
		c := &Controller{problems: newProblems(), log: slog.New(slog.DiscardHandler)}
		c.say(tt.snap, tt.plan)
		var got []problems.Code
		for _, p := range c.Problems() {
			got = append(got, p.Code)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		c.say(young, scheduler.Plan{})
		if left := c.Problems(); len(left) != 0 {
			t.Errorf("%s: %v stays when it is over", name, left)
		}
	}
}
