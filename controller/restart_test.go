package controller

import (
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// A29: the answer to a removal, or to a create that failed, arrives at the next controller. It counts.
func TestAnswerAfterARestartCounts(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.gh.SetDeliveryPolicy(nil)
	id := r.job("ok")
	create := h.task()
	r.stopController()
	r.startController()
	if err := h.answer(create, false, "no space left on device"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.st.Runner(t.Context(), create.RunnerID); err != nil || got.State != store.RunnerFailed || got.Message != "no space left on device" {
		t.Errorf("the runner is %s (%s): %v", got.State, got.Message, err)
	}
	r.clock.advance(r.set.Scheduler.StartBackoff + time.Second)
	h.beat()
	r.c().reconcile.Set()
	second := h.task()
	if err := h.answer(second, true, ""); err != nil {
		t.Fatal(err)
	}
	r.gh.CancelJob(id)
	rm := h.task()
	r.stopController()
	r.startController()
	if err := h.answer(rm, true, ""); err != nil {
		t.Fatal(err)
	}
	r.until("the runner is removed", func() bool {
		got, err := r.st.Runner(t.Context(), second.RunnerID)
		return err == nil && got.State == store.RunnerRemoved && got.Cleaned
	})
}

// A29: the controller was killed between writing an answer down and acting on it, and the agent, which had been embedded in it, never
// says it again.
func TestAnswerThatWasOnlyWrittenDownIsActedOnAfterARestart(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"it failed": false, "it started": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, h := noAgents(t, nil)
			r.job("ok")
			create := h.task()
			if _, _, err := r.st.FinishTask(t.Context(), h.cred.HostID, create.ID, create.Attempt, ok, "no space left on device"); err != nil {
				t.Fatal(err)
			}
			r.stopController()
			r.startController()
			want := store.RunnerFailed
			if ok {
				want = store.RunnerRegistering
			}
			r.until("the answer is acted on", func() bool {
				got, err := r.st.Runner(t.Context(), create.RunnerID)
				return err == nil && got.State == want
			})
		})
	}
}

// The controller is stopped while a job runs and its agent lives: the job survives, is heard of again, and gets no second runner.
func TestJobSurvivesARestartOfTheController(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	running := r.job("wait")
	r.waitJob(running, simgithub.StatusInProgress, "")
	r.runner(store.RunnerBusy)
	r.stopController()
	r.finishJob(running) // its end is told to nobody
	r.completed(running, "success")
	r.startController()
	r.until("the runner's end is known", func() bool { return len(r.live()) == 0 })
	second := r.job("ok")
	r.completed(second, "success")
	in := r.installation(p.InstallationID)
	r.clock.advance(r.set.JobRecheck + time.Second)
	r.c().pollInstallation(t.Context(), in, &pollState{})
	if j := r.jobRow(in.ID, running); j.State != store.JobCompleted || j.Conclusion != "success" {
		t.Errorf("the job whose end was told to nobody is %s %s", j.State, j.Conclusion)
	}
	r.nothingLeft()
	if n := len(r.runners()); n != 2 {
		t.Errorf("%d runners for two jobs", n)
	}
}

// The agent is stopped and started again in the middle of a job: the job goes on.
func TestJobSurvivesARestartOfTheAgent(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	id := r.job("wait")
	r.waitJob(id, simgithub.StatusInProgress, "")
	r.runner(store.RunnerBusy)
	r.hosts[0].stop()
	r.hosts[0].start()
	r.finishJob(id)
	r.completed(id, "success")
	r.nothingLeft()
	if n := len(r.runners()); n != 1 {
		t.Errorf("%d runners for one job", n)
	}
}
