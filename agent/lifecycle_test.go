package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

func TestAStoppedRunnerIsNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.ctl.offer(stopTask("run_1", 5*time.Minute))
		r.after(time.Second)
		r.wantOK("tsk_stop_run_1")
		got := r.ctl.last("run_1")
		if got.State != stateRemoved || got.ExitCode == nil || *got.ExitCode != 143 {
			t.Errorf("said %+v", got)
		}
		r.wantCount(0)
	})
}

func TestAStopWaitsForTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Stubborn("run_1")
		r.ctl.offer(stopTask("run_1", 5*time.Minute))
		r.after(5*time.Minute - time.Second)
		r.wantUnanswered("tsk_stop_run_1")
		r.wantCount(1)
		r.after(2 * time.Second)
		r.wantOK("tsk_stop_run_1")
		r.wantCount(0)
	})
}

func TestARemovalDoesNotWaitForAStop(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Stubborn("run_1")
		r.ctl.offer(stopTask("run_1", 5*time.Minute))
		synctest.Wait()
		r.ctl.offer(removeTask("run_1"))
		r.after(time.Second)
		r.wantOK("tsk_remove_run_1")
		r.wantCount(0)
		r.after(10 * time.Minute)
		r.wantOK("tsk_stop_run_1")
	})
}

// A32: an answer that says "gone" is only given when it is.
func TestRemovalsAreRepeatedUntilTheyHold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Inject(fake.OpRemove, silentFor(3))
		r.ctl.offer(removeTask("run_1"))
		r.after(time.Minute)
		r.wantOK("tsk_remove_run_1")
		r.wantCount(0)
		r.ctl.offer(createTask("run_2"))
		synctest.Wait()
		r.engine.Inject(fake.OpRemove, fake.Fault{Err: errors.New("device or resource busy")})
		r.ctl.offer(removeTask("run_2"))
		r.after(time.Second)
		r.wantFailed("tsk_remove_run_2", "busy")
		r.wantCount(1)
		r.ctl.redeliver("tsk_remove_run_2")
		r.after(time.Second)
		r.wantCount(0)
	})
}

func TestARemovalGivesUpInTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Inject(fake.OpRemove, silentFor(-1))
		r.ctl.offer(removeTask("run_1"))
		r.after(RemoveTimeout)
		r.wantFailed("tsk_remove_run_1", "cannot remove the runner")
	})
}

func TestEndsOfWhatIsNotThereAreFine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(stopTask("run_1", time.Minute))
		r.ctl.offer(removeTask("run_1"))
		synctest.Wait()
		r.wantOK("tsk_stop_run_1")
		r.wantOK("tsk_remove_run_1")
		r.wantSaid("run_1")
	})
}

func TestAbsenceIsNotTakenFromASilentEngine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.Put(backend.Workload{Name: "z", RunnerID: "run_1", Role: backend.RoleRunner, Phase: backend.Running}, "hst_1")
		r.engine.Inject(fake.OpList, silentFor(-1))
		r.start()
		r.ctl.offer(removeTask("run_1"))
		r.after(time.Minute)
		r.wantUnanswered("tsk_remove_run_1")
		r.engine.Mend()
		r.after(time.Minute)
		r.wantOK("tsk_remove_run_1")
		r.wantCount(0)
	})
}

// The report gate: a removal must not delete the exit code before anyone has heard it.
func TestARemovalKeepsTheExitCode(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Inject(fake.OpWatch, silentFor(-1))
		r.engine.BreakWatches()
		synctest.Wait()
		r.engine.Exit("run_1", 7) // and no event tells the sweep
		r.ctl.offer(removeTask("run_1"))
		synctest.Wait()
		r.wantOK("tsk_remove_run_1")
		if got := r.ctl.last("run_1"); got.State != stateFailed || got.ExitCode == nil || *got.ExitCode != 7 || got.Phase != protocol.PhaseMissing {
			t.Errorf("said %+v", got)
		}
		r.wantCount(0)
	})
}

// A list that was taken before a removal and came after it.
func TestAnOldListBringsNoRunnerBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		gate := make(chan struct{})
		r.engine.Inject(fake.OpList, fake.Fault{Late: true, Hold: gate})
		r.agent.sweepNow.up()
		r.after(time.Second)
		r.ctl.offer(removeTask("run_1"))
		r.after(time.Second)
		r.wantOK("tsk_remove_run_1")
		if _, known := r.agent.fleet.get("run_1"); known {
			t.Fatal("the removed runner is not forgotten")
		}
		close(gate)
		r.after(time.Hour)
		if strings.Contains(r.log.String(), "adopted") {
			t.Error("the removed runner was adopted from an old list")
		}
		r.wantSaid("run_1", "registering/running", "/running", "removed/missing")
	})
}

// What is said of a runner is forgotten only once its last word was taken.
func TestARunnerIsForgottenAfterItsLastWord(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Controller: newScripted(), Backends: []backend.Backend{fake.New("podman", nil)}, StatePath: "x", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	a.fleet.created("run_1", "podman", backend.Workload{ID: "w"})
	alive := a.reports()
	a.fleet.finished("run_1", ending{state: stateRemoved})
	a.acknowledge(alive, protocol.ReportResponse{Finished: []string{"run_1"}})
	if got, _ := a.fleet.get("run_1"); !got.ackAt.IsZero() {
		t.Error("an end that was not told counts as acknowledged")
	}
	exited := a.reports()
	a.fleet.removed("run_1") // while that report is on its way
	a.acknowledge(exited, protocol.ReportResponse{Finished: []string{"run_1"}})
	last := a.reports()
	if len(last) != 1 || last[0].Phase != protocol.PhaseMissing {
		t.Fatalf("still to say: %+v", last)
	}
	a.acknowledge(last, protocol.ReportResponse{Finished: []string{"run_1"}})
	if rest := a.reports(); len(rest) != 0 {
		t.Errorf("still to say: %+v", rest)
	}
}

// A29: the removal finished, its agent died before it could say so.
func TestARemovalIsAnsweredByTheNextAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		gate := make(chan struct{})
		r.engine.Inject(fake.OpRemove, fake.Fault{Hold: gate})
		r.ctl.offer(removeTask("run_1"))
		synctest.Wait()
		r.ctl.setDown(true)
		r.cancel()
		synctest.Wait()
		close(gate)
		r.stop()
		r.wantCount(0)
		r.wantUnanswered("tsk_remove_run_1")
		r.ctl.setDown(false)
		r.start()
		r.ctl.redeliver("tsk_remove_run_1")
		r.after(time.Second)
		if res := r.wantOK("tsk_remove_run_1"); res.Attempt != 2 {
			t.Errorf("answered %+v", res)
		}
	})
}

// An agent that stops touches no runner, whatever is under way.
func TestShutdownTouchesNoRunner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Stubborn("run_1")
		r.ctl.offer(createTask("run_2"))
		r.ctl.offer(stopTask("run_1", time.Minute))
		synctest.Wait()
		r.stop() // the stop needs longer than the grace
		r.wantCount(2)
		r.wantUnanswered("tsk_stop_run_1")
		if n := r.engine.Calls(fake.OpRemove); n != 0 {
			t.Errorf("%d removals", n)
		}
		r.after(time.Minute)
		w, _, _ := r.engine.Runner("run_1")
		if w.Phase != backend.Exited || w.ExitCode != 137 {
			t.Errorf("shutdown cancelled a stop under way: %+v", w)
		}
		if w, _, _ := r.engine.Runner("run_2"); w.Phase != backend.Running {
			t.Errorf("run_2 is %+v", w)
		}
	})
}

func TestATaskThatArrivesWhileStoppingIsNotBegun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.agent.stopping.Store(true)
		r.ctl.offer(createTask("run_1"))
		r.ctl.offer(removeTask("run_2"))
		synctest.Wait()
		r.wantFailed("tsk_create_run_1", "stopped before")
		r.wantUnanswered("tsk_remove_run_2")
		r.wantCount(0)
	})
}

func TestStopsFromAnOldTaskReachAnAdoptedRunner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.stop()
		r.start()
		r.ctl.offer(stopTask("run_1", time.Minute))
		r.after(time.Second)
		r.wantOK("tsk_stop_run_1")
		if got := r.ctl.last("run_1"); got.State != stateRemoved || !strings.Contains(got.Message, "stopped") {
			t.Errorf("said %+v", got)
		}
	})
}
