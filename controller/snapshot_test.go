package controller

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A runner that GitHub says executes a job is busy to the decision, wherever its row is on the way there. Were a starting one counted
// as starting, the decision would see one runner too many and withdraw another job's.
func TestRunnerThatExecutesIsBusyToTheDecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state     store.RunnerState
		executing bool
		jobID     string
		ephemeral bool
		want      store.RunnerState
	}{
		{store.RunnerProvisioning, true, "", true, store.RunnerBusy},
		{store.RunnerRegistering, true, "", true, store.RunnerBusy},
		{store.RunnerIdle, true, "", true, store.RunnerBusy},
		{store.RunnerIdle, false, "job_1", true, store.RunnerBusy},
		{store.RunnerIdle, false, "job_1", false, store.RunnerIdle},
		{store.RunnerIdle, false, "", true, store.RunnerIdle},
		{store.RunnerDraining, true, "job_1", true, store.RunnerDraining},
		{store.RunnerFailed, true, "job_1", true, store.RunnerFailed},
	} {
		got := schedulerRunner(store.DemandRunner{State: c.state, JobID: c.jobID, Ephemeral: c.ephemeral}, nil, c.executing)
		if got.State != string(c.want) {
			t.Errorf("%+v: the decision sees %s", c, got.State)
		}
	}
}

// A job that is taken in while a snapshot is read counts for its runner, whichever of the two is first.
func TestJobsTakenInDuringASnapshotCount(t *testing.T) {
	t.Parallel()
	l := newLinks()
	says := func(state store.JobState, runner string) store.JobUpdate {
		return store.JobUpdate{Repository: "acme/widgets", GitHubID: int64(len(runner)), State: state, RunnerName: runner}
	}
	l.begin(says(store.JobInProgress, "over"))()
	before := l.begin(says(store.JobCompleted, "before"))
	x := l.listen()
	before()
	l.begin(says(store.JobInProgress, "within it"))()
	l.begin(says(store.JobQueued, "a runner that nobody has"))()
	l.begin(says(store.JobCompleted, ""))()
	got := x.stop()
	after := l.begin(says(store.JobInProgress, "after"))
	if len(got.runners) != 2 || !got.runners["before"] || !got.runners["within it"] || !got.jobs[linkedJob{"acme/widgets", 6}] || !got.jobs[linkedJob{"acme/widgets", 9}] {
		t.Errorf("the snapshot heard of %v", got)
	}
	after()
	if len(l.active) != 0 || len(l.listeners) != 0 {
		t.Errorf("left behind: %v %v", l.active, l.listeners)
	}
}
