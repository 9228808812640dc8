package e2e

import (
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A1: more jobs than slots, nothing sent twice. All run, and nothing is left.
func TestTwentyJobsRunAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	var ids []int64
	for range 20 {
		ids = append(ids, f.GitHub.QueueJob(job("build", "echo hello from $(hostname)")))
	}
	seen := map[string]bool{}
	for _, id := range ids {
		j := finish(t, f.GitHub, id, "success")
		if !strings.Contains(j.Log, "hello from") {
			t.Errorf("job %d has no log of its step: %q", id, j.Log)
		}
		if seen[j.RunnerName] {
			t.Errorf("runner %s ran two jobs: it is not fresh", j.RunnerName)
		}
		seen[j.RunnerName] = true
	}
	nothingLeft(t, f)
	for _, r := range runners(t, f.Controller().Store) {
		if r.State != store.RunnerRemoved {
			t.Errorf("runner %s ended as %s: %s", r.Name, r.State, r.Message)
		}
	}
}

func TestFailingJobIsTheWorkflowsFailure(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	id := f.GitHub.QueueJob(job("broken", "exit 3"))
	finish(t, f.GitHub, id, "failure")
	nothingLeft(t, f)
	j, err := f.Controller().Store.JobByGitHubID(t.Context(), f.In.ID, id)
	if err != nil {
		t.Fatal(err)
	}
	if j.FleetFault != "" {
		t.Errorf("a failing step is blamed on the fleet: %s", j.FleetFault)
	}
}

// A8: a job cancelled while its runner starts must not leave a runner behind that waits for ever.
func TestJobCancelledWhileItsRunnerStarts(t *testing.T) {
	t.Parallel()
	gate := newGate()
	f := start(t, func(o *demo.Options) { o.WrapBackend = gate.backend })
	id := f.GitHub.QueueJob(job("cancelled", "echo never"))
	gate.reached(t)
	f.GitHub.CancelJob(id)
	gate.open()
	nothingLeft(t, f)
	if n := len(runners(t, f.Controller().Store)); n != 1 {
		t.Errorf("%d runners were made for one cancelled job", n)
	}
}

// A9: a runner that was made for one job is taken by a sibling. Both must run, with one runner each.
func TestStolenRunnerIsReplaced(t *testing.T) {
	t.Parallel()
	gate := newGate()
	f := start(t, func(o *demo.Options) { o.WrapBackend = gate.backend })
	first := f.GitHub.QueueJob(job("first", "echo first"))
	gate.reached(t)
	// A foreign job, whose webhook never reaches us, takes the runner the moment it is online.
	f.GitHub.SetDeliveryPolicy(dropFor("thief"))
	f.GitHub.CancelJob(first)
	thief := f.GitHub.QueueJob(job("thief", "sleep 15; echo thief"))
	second := f.GitHub.QueueJob(job("second", "echo second"))
	gate.open()
	waited := finish(t, f.GitHub, second, "success")
	stole := finish(t, f.GitHub, thief, "success")
	if !waited.CompletedAt.Before(stole.CompletedAt) {
		t.Error("the second job waited for the thief to end")
	}
	nothingLeft(t, f)
	// One for each job, and one that the poller asked for before it saw that the thief had helped itself.
	if n := len(runners(t, f.Controller().Store)); n > 4 {
		t.Errorf("%d runners were made for two jobs and a cancelled one", n)
	}
}

// A2: the one delivery that says that a job waits is lost. The poller finds it.
func TestLostWebhookIsHealedByThePoller(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.GitHub.SetDeliveryPolicy(dropAll)
	id := f.GitHub.QueueJob(job("unheard", "echo heard"))
	finish(t, f.GitHub, id, "success")
	nothingLeft(t, f)
	st := f.Controller().Store
	eventually(t, "the job is known to have completed", func() bool {
		j, err := st.JobByGitHubID(t.Context(), f.In.ID, id)
		return err == nil && j.State == store.JobCompleted
	})
}

// The agent dies in the middle of a job. The job goes on, and the next agent adopts its runner.
func TestAgentRestartedMidJob(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	id := f.GitHub.QueueJob(job("long", "sleep 4; echo survived"))
	if _, err := f.GitHub.WaitJob(t.Context(), id, "in_progress"); err != nil {
		t.Fatal(err)
	}
	if err := f.StopAgent(); err != nil {
		t.Fatal(err)
	}
	if err := f.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	finish(t, f.GitHub, id, "success")
	nothingLeft(t, f)
	if n := len(runners(t, f.Controller().Store)); n != 1 {
		t.Errorf("%d runners were made for one job", n)
	}
}

// The controller goes away in the middle of a job and comes back after it has ended: its deliveries went nowhere.
func TestControllerAwayWhileAJobEnds(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	id := f.GitHub.QueueJob(job("long", "sleep 2"))
	if _, err := f.GitHub.WaitJob(t.Context(), id, "in_progress"); err != nil {
		t.Fatal(err)
	}
	if err := f.StopController(); err != nil {
		t.Fatal(err)
	}
	finish(t, f.GitHub, id, "success")
	if err := f.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, f)
	st := f.Controller().Store
	eventually(t, "the job is known to have completed", func() bool {
		j, err := st.JobByGitHubID(t.Context(), f.In.ID, id)
		return err == nil && j.State == store.JobCompleted && j.Conclusion == "success"
	})
}
