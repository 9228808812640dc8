package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
)

var silent = fake.Fault{Err: backend.ErrUnavailable}

func silentFor(times int) fake.Fault {
	f := silent
	f.Times = times
	return f
}

// inventoryTime is the time that asking three more times takes.
func inventoryTime() (d time.Duration) {
	for _, w := range InventoryRetries {
		d += w
	}
	return d
}

func TestAnUncertainInventoryFailsAFirstDeliveryOutLoud(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.engine.Inject(fake.OpList, silentFor(-1))
		r.ctl.offer(createTask("run_1"))
		r.after(inventoryTime() - time.Second)
		r.wantUnanswered("tsk_create_run_1")
		r.after(time.Second)
		r.wantFailed("tsk_create_run_1", errUncertain.Error())
		if r.engine.Calls(fake.OpCreate) != 0 {
			t.Error("an uncertain inventory let a create through")
		}
		if got := inventoryTime(); got != 17*time.Second || len(InventoryRetries) != 3 {
			t.Errorf("asks %d more times over %s", len(InventoryRetries), got)
		}
	})
}

func TestAnUncertainInventoryLeavesARedeliveryUnanswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.engine.Inject(fake.OpList, silentFor(-1))
		task := createTask("run_1")
		task.Attempt = 2
		r.ctl.offer(task)
		r.after(10 * time.Minute)
		r.wantUnanswered(task.ID)
		if r.engine.Calls(fake.OpCreate) != 0 {
			t.Error("an uncertain inventory let a create through")
		}
		r.engine.Mend()
		r.ctl.redeliver(task.ID)
		r.after(time.Minute)
		if res := r.wantOK(task.ID); res.Attempt != 3 {
			t.Errorf("answered attempt %d", res.Attempt)
		}
	})
}

func TestAnInventoryThatComesLateIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.engine.Inject(fake.OpList, silentFor(3)) // the sweeps may take some of them
		r.ctl.offer(createTask("run_1"))
		r.after(inventoryTime())
		r.wantOK("tsk_create_run_1")
		r.wantCount(1)
	})
}

// A32: a second workload for one runner must not come of a lost answer.
func TestARedeliveredCreateAdoptsWhatTheFirstMade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		first := r.wantOK("tsk_create_run_1")
		r.stop() // the answer is in, and the controller forgets it
		r.start()
		r.ctl.redeliver("tsk_create_run_1")
		synctest.Wait()
		res, n := r.ctl.result("tsk_create_run_1")
		if n != 2 || !res.OK || res.WorkloadID != first.WorkloadID || r.engine.Calls(fake.OpCreate) != 1 {
			t.Errorf("answered %+v after %d creates", res, r.engine.Calls(fake.OpCreate))
		}
		r.wantCount(1)
	})
}

func TestALostAnswerIsGivenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.set(func() { r.ctl.loseNext = 2 })
		r.ctl.offer(createTask("run_1"))
		r.after(time.Minute)
		if res, n := r.ctl.result("tsk_create_run_1"); n != 3 || !res.OK {
			t.Errorf("answered %d times, the last %+v", n, res)
		}
		if r.engine.Calls(fake.OpCreate) != 1 {
			t.Error("created again")
		}
	})
}

// Every poll says what is held, so that a delivery that never arrived is missed by the controller:
// in flight or left to its lease is held, lost or answered is not.
func TestPollsSayWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		heard := func() []string {
			r.ctl.mu.Lock()
			defer r.ctl.mu.Unlock()
			return r.ctl.held[len(r.ctl.held)-1]
		}
		want := func(what string, ids ...string) {
			t.Helper()
			if got := heard(); got == nil || !slices.Equal(got, ids) {
				t.Errorf("%s: the poll said %q, want %q", what, got, ids)
			}
		}
		r.start()
		want("at the start")
		r.ctl.set(func() { r.ctl.losePolls = 1 })
		r.ctl.offer(createTask("run_1"))
		r.after(RetryMin * 2)
		want("its delivery was lost")
		r.engine.Inject(fake.OpList, silentFor(-1))
		task := createTask("run_1")
		task.Attempt, task.LeaseUntil = 2, time.Now().Add(20*time.Minute)
		r.ctl.offer(task)
		synctest.Wait()
		want("in flight", task.ID)
		r.after(10 * time.Minute)
		r.wantUnanswered(task.ID)
		want("left to its lease", task.ID)
		r.after(10*time.Minute + PollWait)
		want("its lease has ended")
		r.engine.Mend()
		task.Attempt, task.LeaseUntil = 3, time.Now().Add(20*time.Minute)
		r.ctl.offer(task)
		r.after(time.Minute)
		r.wantOK(task.ID)
		want("answered")
	})
}

// The lease runs out while the answer is on its way: the newer delivery is answered too.
func TestAnAnswerThatCameTooLateIsGivenForTheNewDelivery(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.ctl.setDown(true)
		r.ctl.offer(removeTask("run_1"))
		r.after(time.Minute)
		r.ctl.setDown(false)
		r.after(time.Minute)
		r.ctl.redeliver("tsk_remove_run_1")
		r.after(time.Minute)
		res, _ := r.ctl.result("tsk_remove_run_1")
		if !res.OK || res.Attempt != 2 {
			t.Errorf("answered %+v", res)
		}
		r.wantCount(0)
	})
}

// The engine made the workload and its answer was lost: the runner is failed out loud, the
// controller gives it up, and the leftover goes.
func TestALeftoverOfALostEngineAnswerGoes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		lost := silent
		lost.Took = true
		r.engine.Inject(fake.OpCreate, lost)
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.wantFailed("tsk_create_run_1", "does not answer")
		r.ctl.set(func() { r.ctl.ended["run_1"] = stateFailed })
		r.wantCount(1)
		r.after(OrphanGrace - time.Second)
		r.wantCount(1)
		r.after(ReportInterval + 2*SweepInterval)
		r.wantCount(0)
	})
}

// A31: an agent killed between making and starting leaves a workload that never runs.
func TestAHalfMadeWorkloadIsMadeAnew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		old := r.engine.Put(backend.Workload{Name: "zoomies-run_1", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Created}, "hst_1")
		r.start()
		r.wantSaid("run_1")
		task := createTask("run_1")
		task.Attempt = 2
		r.ctl.offer(task)
		synctest.Wait()
		if res := r.wantOK(task.ID); res.WorkloadID == old {
			t.Error("the half-made workload was taken for a runner")
		}
		r.wantCount(1)
	})
}

func TestAHalfMadeWorkloadThatNobodyFinishesFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.Put(backend.Workload{Name: "zoomies-run_1", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Created}, "hst_1")
		r.start()
		r.after(MissingGrace + 2*SweepInterval)
		r.wantSaid("run_1", "failed/exited", "failed/missing")
		r.wantCount(0)
	})
}

func TestAForeignContainerOfTheSameNameIsLeftAlone(t *testing.T) {
	for what, w := range map[string]backend.Workload{
		"another runner's": {Name: "zoomies-run_1", RunnerID: "run_other", Role: backend.RoleRunner, Phase: backend.Running},
		"a stranger's":     {Name: "zoomies-run_1", Phase: backend.Running},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			hostID := "hst_1"
			if w.RunnerID == "" {
				hostID = "hst_other"
			}
			id := r.engine.Put(w, hostID)
			r.start()
			r.ctl.offer(createTask("run_1"))
			synctest.Wait()
			r.wantFailed("tsk_create_run_1", `"zoomies-run_1"`)
			r.after(time.Hour)
			if got, err := r.engine.Inspect(t.Context(), id); err != nil || got.Phase != backend.Running {
				t.Errorf("%s container was touched: %+v, %v", what, got, err)
			}
		})
	}
}

func TestADuplicateThatTheListDidNotShowIsAdopted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id := r.engine.Put(backend.Workload{Name: "zoomies-run_1", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Running}, "hst_1")
		r.engine.Hide("run_1", true)
		r.engine.Inject(fake.OpCreate, fake.Fault{Delay: time.Second})
		r.start()
		task := createTask("run_1")
		task.Attempt = 2
		r.ctl.offer(task)
		synctest.Wait()
		r.engine.Hide("run_1", false)
		r.after(time.Second)
		if res := r.wantOK(task.ID); res.WorkloadID != id || strings.Contains(res.Error, "exists") {
			t.Errorf("answered %+v", res)
		}
		r.wantCount(1)
	})
}
