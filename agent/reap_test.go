package agent

import (
	"context"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// A controller that is down can never look like "nobody owns these runners".
func TestNothingIsReapedBeforeTheFirstPoll(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.stop()
		r.engine.Put(backend.Workload{Name: "stray", Role: backend.RoleRunner, Phase: backend.Running}, "hst_1")
		r.engine.Put(backend.Workload{Name: "z", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Running}, "hst_1")
		r.ctl.set(func() { r.ctl.unknown["run_1"] = true })
		r.ctl.setDown(true)
		r.start()
		r.after(time.Hour)
		r.wantCount(2)
		r.ctl.setDown(false)
		r.after(RetryMax + PollWait + SweepInterval)
		r.wantCount(1) // the stray was seen long ago
		if _, _, ok := r.engine.Runner("run_1"); !ok {
			t.Fatal("a runner was removed as soon as the controller disclaimed it")
		}
		r.after(OrphanGrace + ReportInterval)
		r.wantCount(0)
	})
}

func TestOrphansHaveAGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		r.engine.Put(backend.Workload{Name: "no-runner", Role: backend.RoleRunner, Phase: backend.Exited}, "hst_1")
		r.engine.Put(backend.Workload{Name: "side", RunnerID: "run_gone", Role: backend.RoleDaemon, Phase: backend.Running}, "hst_1")
		foreign := r.engine.Put(backend.Workload{Name: "theirs", Role: backend.RoleRunner, Phase: backend.Running}, "hst_2")
		r.after(OrphanGrace)
		r.wantCount(3)
		r.after(3 * SweepInterval)
		r.wantCount(1)
		if _, err := r.engine.Inspect(t.Context(), foreign); err != nil {
			t.Errorf("another host's workload was touched: %v", err)
		}
	})
}

// A5 on the host: should a runner ever have two workloads, the one that is known stays.
func TestASecondWorkloadOfARunnerIsAnOrphan(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		known, _, _ := r.engine.Runner("run_1")
		r.engine.Put(backend.Workload{Name: "twin", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Running}, "hst_1")
		r.after(OrphanGrace + 3*SweepInterval)
		r.wantCount(1)
		if w, err := r.engine.Inspect(t.Context(), known.ID); err != nil || w.Phase != backend.Running {
			t.Errorf("the known one: %+v, %v", w, err)
		}
	})
}

func TestASidecarOfALivingRunnerIsNoOrphan(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		task := createTask("run_1")
		task.Create.Daemon = "docker"
		r.ctl.offer(task)
		r.after(time.Hour)
		r.wantCount(2)
		r.stop()
		r.start()
		r.after(time.Hour)
		r.wantCount(2)
	})
}

// The row is failed, the job runs on: nothing is deleted before its grace.
func TestADisclaimedRunnerThatIsClaimedAgainStays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.ctl.set(func() { r.ctl.unknown["run_1"] = true })
		r.after(OrphanGrace - time.Second)
		r.ctl.set(func() { delete(r.ctl.unknown, "run_1") })
		r.after(time.Hour)
		r.wantCount(1)
		r.ctl.set(func() { r.ctl.unknown["run_1"] = true })
		r.after(OrphanGrace - time.Second) // the grace begins anew
		r.wantCount(1)
		r.after(2 * ReportInterval)
		r.wantCount(0)
	})
}

// Reports get through and polls do not: nothing is reaped before the agent has asked.
func TestReportsAloneReapNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.stop()
		r.ctl.set(func() { r.ctl.unknown["run_1"] = true })
		r.cfg.Controller = unpolled{r.ctl}
		r.start()
		r.after(time.Hour)
		r.wantCount(1)
	})
}

// unpolled answers everything but polls.
type unpolled struct{ *scripted }

func (unpolled) Poll(context.Context, protocol.Credential, time.Duration) (*protocol.Task, error) {
	return nil, errDown
}
