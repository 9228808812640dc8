package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

func prewarmTask(id, image string) protocol.Task {
	return protocol.Task{
		ID: id, Kind: protocol.TaskPrewarm,
		Prewarm: &protocol.Prewarm{Backend: "podman", Image: image, PullPolicy: "missing"},
	}
}

// imageTask is a create whose image tells it from others in the engine's books.
func imageTask(runner, image string) protocol.Task {
	t := createTask(runner)
	t.Create.Image = image
	return t
}

func TestStartsAreOneAtATimeAndCreatesGoFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpPrepare, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(imageTask("run_1", "first"))
		synctest.Wait()
		r.ctl.offer(prewarmTask("tsk_warm", "warm"))
		for i := 2; i <= 5; i++ {
			r.ctl.offer(imageTask(fmt.Sprintf("run_%d", i), fmt.Sprintf("create%d", i)))
		}
		synctest.Wait()
		r.wantCount(0)
		close(gate)
		synctest.Wait()
		want := []string{"first", "create2", "create3", "create4", "create5", "warm"}
		if got := r.engine.Prepared(); !slices.Equal(got, want) {
			t.Errorf("order of starts %v, want %v", got, want)
		}
		if r.engine.Peak() != StartConcurrency {
			t.Errorf("%d starts at once", r.engine.Peak())
		}
		r.wantCount(5)
		r.wantOK("tsk_warm")
	})
}

func TestStartConcurrencyIsAsConfigured(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.cfg.StartConcurrency = 2
		r.engine.Inject(fake.OpCreate, fake.Fault{Delay: time.Second, Times: -1})
		r.start()
		for i := range 5 {
			r.ctl.offer(createTask(fmt.Sprintf("run_%d", i)))
		}
		r.after(time.Minute)
		if r.engine.Peak() != 2 {
			t.Errorf("%d starts at once, want 2", r.engine.Peak())
		}
		r.wantCount(5)
	})
}

func TestWaitingStartsDoNotHoldUpStopsAndRemovals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		for _, id := range []string{"run_1", "run_2"} {
			r.ctl.offer(createTask(id))
		}
		synctest.Wait()
		gate := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: gate})
		for i := range 50 {
			r.ctl.offer(createTask(fmt.Sprintf("run_w%d", i)))
		}
		r.ctl.offer(stopTask("run_1", time.Minute))
		r.ctl.offer(removeTask("run_2"))
		synctest.Wait()
		r.wantOK("tsk_stop_run_1")
		r.wantOK("tsk_remove_run_2")
		r.wantUnanswered("tsk_create_run_w0")
		close(gate)
		synctest.Wait()
		r.wantOK("tsk_create_run_w49")
	})
}

func TestASupersededCreateNeverTouchesTheBackend(t *testing.T) {
	for _, end := range []protocol.Task{stopTask("run_2", time.Minute), removeTask("run_2")} {
		bubble(t, func(t *testing.T, r *rig) {
			gate := make(chan struct{})
			r.engine.Inject(fake.OpPrepare, fake.Fault{Hold: gate})
			r.start()
			r.ctl.offer(imageTask("run_1", "first"))
			r.ctl.offer(imageTask("run_2", "second"))
			r.ctl.offer(end)
			synctest.Wait()
			r.wantOK(end.ID)
			r.wantFailed("tsk_create_run_2", errSuperseded.Error())
			close(gate)
			r.after(time.Minute)
			if slices.Contains(r.engine.Prepared(), "second") || r.engine.Calls(fake.OpCreate) != 1 {
				t.Error("the superseded create reached the backend")
			}
			r.wantSaid("run_2")
		})
	}
}

// A8: cancelled while it starts, a runner must be withdrawn and steal no later job.
func TestARunnerCancelledWhileItStartsIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpPrepare, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.ctl.offer(removeTask("run_1"))
		synctest.Wait() // the gate stays shut: nobody waits for the image
		r.wantFailed("tsk_create_run_1", errSuperseded.Error())
		r.wantOK("tsk_remove_run_1")
		r.wantCount(0)
		r.ctl.offer(createTask("run_2"))
		synctest.Wait()
		r.wantOK("tsk_create_run_2") // calling off was no fault of the engine: no cooldown
		close(gate)
	})
}

// The create wins the race against its removal: the removal then takes what it made.
func TestARemovalAfterALateCreateLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: gate, Took: true, Err: nil})
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		close(gate)
		r.ctl.offer(removeTask("run_1"))
		synctest.Wait()
		r.wantOK("tsk_remove_run_1")
		r.wantCount(0)
	})
}

func TestACordonIsCheckedAtTheFront(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpPrepare, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(createTask("run_1"))
		r.ctl.offer(createTask("run_2"))
		r.ctl.offer(prewarmTask("tsk_warm", "warm"))
		synctest.Wait()
		r.ctl.set(func() { r.ctl.cordoned = true })
		r.after(HeartbeatInterval)
		close(gate)
		synctest.Wait()
		r.wantOK("tsk_create_run_1") // admitted before
		r.wantFailed("tsk_create_run_2", "cordoned")
		r.wantFailed("tsk_warm", "cordoned")
		r.wantCount(1)
		// A runner that is there already is not refused by a cordon.
		again := createTask("run_1")
		again.Attempt = 2
		r.ctl.offer(again)
		synctest.Wait()
		if res, n := r.ctl.result(again.ID); n != 2 || !res.OK {
			t.Errorf("the redelivered create was answered %+v", res)
		}
		r.ctl.set(func() { r.ctl.cordoned = false })
		r.after(HeartbeatInterval)
		r.ctl.offer(createTask("run_3"))
		synctest.Wait()
		r.wantOK("tsk_create_run_3")
	})
}

func TestShutdownTurnsAwayWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(createTask("run_1"))
		r.ctl.offer(createTask("run_2"))
		again := createTask("run_3")
		again.Attempt = 2
		r.ctl.offer(again)
		synctest.Wait()
		r.cancel()
		synctest.Wait()
		r.wantFailed("tsk_create_run_2", "stopped before")
		r.wantUnanswered("tsk_create_run_3") // its workload may exist: only a next agent can tell
		r.wantUnanswered("tsk_create_run_1")
		close(gate) // within the grace
		r.stop()
		r.wantOK("tsk_create_run_1")
		r.wantSaid("run_1", "registering/running") // the last report
		r.wantCount(1)
	})
}

// A29: what finishes after the worker is gone must not be lost: the next one finds it.
func TestACreateOutlivesItsAgentAndIsFoundByTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		stopping := time.Now()
		r.stop()
		if took := time.Since(stopping); took != ShutdownGrace {
			t.Errorf("stopping took %s, want the grace of %s", took, ShutdownGrace)
		}
		r.wantUnanswered("tsk_create_run_1")
		r.wantCount(0)
		close(gate) // shutdown did not cancel it
		synctest.Wait()
		r.wantCount(1)
		r.start()
		r.ctl.redeliver("tsk_create_run_1")
		synctest.Wait()
		res := r.wantOK("tsk_create_run_1")
		if w, _, _ := r.engine.Runner("run_1"); res.WorkloadID != w.ID || res.Attempt != 2 {
			t.Errorf("answered %+v", res)
		}
		r.wantCount(1)
	})
}

func TestTheCooldownDoublesAndASuccessClearsIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		down := fake.Fault{Err: fmt.Errorf("dial: %w", backend.ErrUnavailable)}
		tries := 0
		for _, hold := range []time.Duration{5, 10, 20, 40, 60, 60} {
			r.engine.Inject(fake.OpCreate, down)
			id := fmt.Sprintf("run_%d", tries)
			tries++
			r.ctl.offer(createTask(id))
			synctest.Wait()
			r.wantFailed("tsk_create_"+id, "cannot start the runner")
			probe := fmt.Sprintf("tsk_warm_%d", tries)
			before := len(r.engine.Prepared())
			r.ctl.offer(prewarmTask(probe, probe))
			r.after(hold*time.Second - time.Millisecond)
			if len(r.engine.Prepared()) != before {
				t.Errorf("a start ran within the hold of %d s", hold)
			}
			// The hold ends, and what waited fails as well: the next hold is longer.
			r.engine.Inject(fake.OpPrepare, fake.Fault{Err: errors.New("no such image")})
			r.after(time.Millisecond)
			if _, n := r.ctl.result(probe); n != 1 {
				t.Errorf("the start was not let go after %d s", hold)
			}
		}
		r.ctl.offer(createTask("run_ok"))
		synctest.Wait()
		r.wantOK("tsk_create_run_ok")
		r.engine.Inject(fake.OpCreate, down)
		r.ctl.offer(createTask("run_last"))
		synctest.Wait()
		if left := r.agent.cooldown.left(); left != CooldownMin {
			t.Errorf("after a success the hold is %s, want %s", left, CooldownMin)
		}
	})
}

func TestOnlyASilentEngineOpensTheCooldown(t *testing.T) {
	for name, tt := range map[string]struct {
		fault fake.Fault
		says  string
	}{
		"an image that cannot be had": {fake.Fault{Err: backend.ErrImage}, "image"},
		"an answer that is a no":      {fake.Fault{Err: errors.New("no space left on device")}, "no space"},
		"a start beyond its budget":   {fake.Fault{Delay: time.Hour, Err: backend.ErrUnavailable}, "within 10m0s"},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.engine.Inject(fake.OpPrepare, tt.fault)
			r.start()
			r.ctl.offer(createTask("run_1"))
			r.after(CreateTimeout)
			r.wantFailed("tsk_create_run_1", tt.says)
			if left := r.agent.cooldown.left(); left > 0 {
				t.Errorf("%s opened a cooldown of %s", name, left)
			}
			r.wantCount(0)
		})
	}
}

func TestThePatienceOfACreateIsTheTasks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.Inject(fake.OpPrepare, fake.Fault{Delay: time.Hour})
		r.start()
		task := createTask("run_1")
		task.Create.Timeout = 90
		r.ctl.offer(task)
		r.after(89 * time.Second)
		r.wantUnanswered(task.ID)
		r.after(time.Second)
		r.wantFailed(task.ID, "1m30s")
	})
}

func TestAPreparedImageIsReusedForAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.engine.Inject(fake.OpPrepare, fake.Fault{Err: backend.ErrImage})
		for i, wait := range []time.Duration{0, 0, PrewarmReuse - time.Second, time.Second} {
			r.after(wait)
			r.ctl.offer(prewarmTask(fmt.Sprintf("tsk_%d", i), "runner:1"))
			synctest.Wait()
		}
		r.wantFailed("tsk_0", "cannot get the image") // and a failure is never reused
		if got := len(r.engine.Prepared()); got != 2 {
			t.Errorf("fetched %d times, want 2", got)
		}
	})
}

func TestADaemonsImageIsPreparedToo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		task := createTask("run_1")
		task.Create.Daemon, task.Create.DaemonImage, task.Create.DaemonWait = "podman", "daemon:1", 180
		r.ctl.offer(task)
		synctest.Wait()
		r.wantOK(task.ID)
		if got := r.engine.Prepared(); !slices.Equal(got, []string{"runner:1", "daemon:1"}) {
			t.Errorf("prepared %v", got)
		}
		_, spec, _ := r.engine.Runner("run_1")
		if spec.Daemon == nil || spec.Daemon.Kind != "podman" || spec.Daemon.Wait != 3*time.Minute || spec.Env[EnvDockerWait] != "180" || spec.Env[EnvDaemon] != "podman" {
			t.Errorf("spec %+v", spec)
		}
		r.wantCount(2)
		r.engine.Exit("run_1", 0)
		r.after(time.Minute)
		r.wantCount(0) // its sidecar went with it
	})
}

func TestATaskThatCannotBeReadIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		wrong := createTask("run_1")
		wrong.Create.Backend = "docker"
		bare := createTask("run_2")
		bare.Create.JITConfig = ""
		r.ctl.offer(protocol.Task{ID: "tsk_new", Kind: "resize_runner"})
		r.ctl.offer(protocol.Task{ID: "tsk_empty", Kind: protocol.TaskCreate, RunnerID: "run_3"})
		r.ctl.offer(wrong)
		r.ctl.offer(bare)
		synctest.Wait()
		r.wantFailed("tsk_new", "update the agent")
		r.wantFailed("tsk_empty", "cannot read")
		r.wantFailed(wrong.ID, `no backend "docker"`)
		r.wantFailed(bare.ID, "no registration")
	})
}

func TestARedeliveryOfWhatIsInFlightIsNotBegunTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		gate := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: gate})
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.ctl.redeliver("tsk_create_run_1")
		synctest.Wait()
		close(gate)
		synctest.Wait()
		res := r.wantOK("tsk_create_run_1")
		if res.Attempt != 2 || r.engine.Calls(fake.OpCreate) != 1 {
			t.Errorf("answered attempt %d after %d creates", res.Attempt, r.engine.Calls(fake.OpCreate))
		}
	})
}

func TestNoErrorHoldsTheRegistration(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		task := createTask("run_1")
		task.Create.Daemon = "dind"
		r.ctl.offer(task)
		synctest.Wait()
		if res, _ := r.ctl.result(task.ID); res.OK || strings.Contains(res.Error, secretJIT) {
			t.Errorf("answered %+v", res)
		}
	})
}
