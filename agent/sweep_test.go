package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// running starts the agent with one runner that has been heard of.
func (r *rig) running(runner string) {
	r.t.Helper()
	r.start()
	r.ctl.offer(createTask(runner))
	r.after(3 * SweepInterval)
	r.wantOK("tsk_create_" + runner)
}

// Every controller restart on a single machine is a restart of its agent in the middle of jobs.
func TestAnAgentRestartedMidJobKeepsTheJob(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		before, _, _ := r.engine.Runner("run_1")
		r.stop()
		for range 3 {
			r.start()
			r.after(time.Hour) // far beyond every grace
			r.stop()
		}
		after, _, ok := r.engine.Runner("run_1")
		if !ok || after.ID != before.ID || after.Phase != backend.Running {
			t.Fatalf("the job was disturbed: %+v became %+v", before, after)
		}
		if n := r.engine.Calls(fake.OpStop) + r.engine.Calls(fake.OpRemove); n != 0 {
			t.Errorf("%d stops and removals", n)
		}
		r.start()
		r.engine.Exit("run_1", 0)
		r.after(time.Second)
		if got := r.ctl.last("run_1"); got.State != stateRemoved {
			t.Errorf("its end was not told: %+v", got)
		}
		r.wantCount(0)
	})
}

// The first sweep or task must not meet an empty set of runners.
func TestAdoptionComesBeforeTheFirstTask(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.stop()
		var polled, known bool
		r.cfg.Controller = watched{r.ctl, func() {
			if !polled {
				polled = true
				_, known = r.agent.fleet.get("run_1")
			}
		}}
		r.engine.Inject(fake.OpList, fake.Fault{Delay: time.Second})
		r.start()
		r.after(2 * time.Second)
		if !polled || !known {
			t.Errorf("polled %t, and run_1 was known then: %t", polled, known)
		}
	})
}

// watched tells a test of every poll.
type watched struct {
	*scripted
	onPoll func()
}

func (w watched) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	w.onPoll()
	return w.scripted.Poll(ctx, cred, wait)
}

// The agent was away when the job ended.
func TestAnEndThatNobodySawIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.stop()
		r.engine.Exit("run_1", 3)
		r.start()
		r.after(time.Second)
		if got := r.ctl.last("run_1"); got.State != stateFailed || got.ExitCode == nil || *got.ExitCode != 3 {
			t.Errorf("said %+v", got)
		}
	})
}

func TestAControllerThatIsDownDisturbsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.ctl.offer(createTask("run_2"))
		synctest.Wait()
		r.ctl.setDown(true)
		r.after(5 * time.Minute)
		r.engine.Exit("run_2", 0)
		r.after(5 * time.Minute)
		r.wantCount(2) // the exit code has not been heard
		if w, _, _ := r.engine.Runner("run_1"); w.Phase != backend.Running {
			t.Error("the job was disturbed")
		}
		r.ctl.setDown(false)
		r.after(RetryMax)
		if got := r.ctl.last("run_2"); got.State != stateRemoved {
			t.Errorf("said %+v", got)
		}
		r.after(RetryMax)
		r.wantCount(1)
		r.ctl.offer(createTask("run_3"))
		r.after(RetryMax)
		r.wantOK("tsk_create_run_3")
	})
}

func TestAMissingRunnerHasAGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		// A39: the list may leave out for a while what is there.
		r.engine.Hide("run_1", true)
		r.after(MissingGrace - SweepInterval)
		r.engine.Hide("run_1", false)
		r.after(10 * time.Minute)
		r.wantSaid("run_1", "registering/running", "/running")
		r.engine.Vanish("run_1")
		r.after(MissingGrace - time.Second)
		r.wantSaid("run_1", "registering/running", "/running")
		r.after(2 * SweepInterval)
		r.wantSaid("run_1", "registering/running", "/running", "failed/missing")
		if got := r.ctl.last("run_1"); !strings.Contains(got.Message, "not on the host any more") {
			t.Errorf("said %q", got.Message)
		}
		r.after(time.Hour)
		if _, known := r.agent.fleet.get("run_1"); known {
			t.Error("it is remembered for ever")
		}
	})
}

func TestAnEngineThatIsDownSaysNothingOfItsRunners(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Down()
		r.after(time.Hour)
		r.wantSaid("run_1", "registering/running", "/running")
		last := r.ctl.beats[len(r.ctl.beats)-1]
		if last.Host.Backends[0].Error == "" || last.Host.CPUs != 4 {
			t.Errorf("the heartbeat hides that the engine is down: %+v", last.Host)
		}
		r.engine.Mend()
		r.after(10 * time.Minute)
		r.wantSaid("run_1", "registering/running", "/running")
		if n := strings.Count(r.log.String(), "a backend does not answer"); n != 1 {
			t.Errorf("said %d times that it is down", n)
		}
		r.engine.Exit("run_1", 0)
		r.after(time.Second)
		r.wantCount(0)
	})
}

func TestAnEngineThatComesUpLateIsAdoptedFrom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.stop()
		r.engine.Down()
		r.start()
		r.after(10 * time.Minute)
		r.engine.Mend()
		r.after(10 * time.Minute)
		r.wantCount(1)
		if got := r.ctl.last("run_1"); got.Phase != protocol.PhaseRunning || got.State != "" {
			t.Errorf("said %+v", got)
		}
	})
}

func TestEventsWakeTheSweep(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Exit("run_1", 0)
		synctest.Wait() // no time passes
		if got := r.ctl.last("run_1"); got.State != stateRemoved {
			t.Errorf("the end was not told at once: %+v", got)
		}
	})
}

func TestTheTimerCatchesWhatEventsMissed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Inject(fake.OpWatch, silentFor(-1))
		r.engine.BreakWatches()
		r.after(time.Minute)
		r.engine.Exit("run_1", 0)
		r.after(SweepInterval)
		if got := r.ctl.last("run_1"); got.State != stateRemoved {
			t.Errorf("said %+v", got)
		}
	})
}

func TestAnEndedWorkloadStaysForItsRetention(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ctl.retention = 10 * time.Minute
		r.running("run_1")
		r.engine.Exit("run_1", 0)
		r.after(10*time.Minute - time.Second)
		r.wantCount(1)
		r.after(2 * SweepInterval)
		r.wantCount(0)
	})
}

func TestAnEndIsKeptUntilItIsAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ctl.deaf = true
		r.running("run_1")
		r.engine.Exit("run_1", 5)
		r.after(time.Hour)
		r.wantCount(1)
		if n := r.countReports("run_1", stateFailed); n < 100 || n > 130 {
			t.Errorf("the end was said %d times within an hour, want once a report", n)
		}
		r.ctl.set(func() { r.ctl.deaf = false })
		r.after(ReportInterval + SweepInterval)
		r.wantCount(0)
	})
}

func (r *rig) countReports(runner, state string) (n int) {
	r.ctl.mu.Lock()
	defer r.ctl.mu.Unlock()
	for _, rep := range r.ctl.reports {
		if rep.RunnerID == runner && rep.State == state {
			n++
		}
	}
	return n
}

func TestAnEndBetweenReportAndAnswerIsStillTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.ctl.set(func() { r.ctl.ended["run_1"] = stateFailed }) // the row ended first
		r.after(ReportInterval)
		r.engine.Exit("run_1", 0)
		r.after(time.Second)
		if n := r.countReports("run_1", stateRemoved); n == 0 {
			t.Error("the end was never told")
		}
		r.wantCount(0)
	})
}

// A44: many jobs, one after the other, leave nothing in memory or on the host.
func TestAThousandJobsLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		for i := range 1000 {
			id := fmt.Sprintf("run_%d", i)
			r.ctl.offer(createTask(id))
			synctest.Wait()
			r.engine.Exit(id, 0)
			r.after(time.Second)
		}
		r.after(time.Hour)
		r.wantCount(0)
		a := r.agent
		if n := len(a.fleet.byID) + len(a.fleet.buried) + len(a.tasks.jobs) + len(a.orphans.seen) + len(a.usage.by) + len(a.starts.running); n != 0 {
			t.Errorf("%d things are still remembered", n)
		}
	})
}
