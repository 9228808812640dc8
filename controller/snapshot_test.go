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
