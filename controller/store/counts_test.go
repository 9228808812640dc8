package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestCountsSayWhoseJobsAndRunnersAreInWhichState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	rs := []store.Runner{
		{Name: "a", PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID},
		{Name: "b", PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID},
		{Name: "c", PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID},
	}
	if err := s.CreateRunners(ctx, rs); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		id string
		to store.RunnerState
	}{{rs[1].ID, store.RunnerRegistering}, {rs[1].ID, store.RunnerIdle}, {rs[2].ID, store.RunnerFailed}} {
		if _, _, err := s.TransitionRunner(ctx, m.id, m.to, store.Change{}); err != nil {
			t.Fatal(err)
		}
	}
	for n, state := range []store.JobState{store.JobQueued, store.JobQueued, store.JobWaiting, store.JobInProgress, store.JobCompleted} {
		c, err := s.UpsertJob(ctx, store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: int64(n + 1), Repository: "acme/x", State: state, Labels: []string{"zoomies"}})
		if err != nil {
			t.Fatal(err)
		}
		if state == store.JobInProgress {
			if _, _, err := s.AssignJob(ctx, c.Job.ID, rs[1].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	jobs, err := s.CountJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	byState := func(a, b store.Count) int { return strings.Compare(a.State, b.State) }
	slices.SortFunc(jobs, byState)
	if want := []store.Count{{f.Installation.ID, f.Pool.ID, "in_progress", 1}, {f.Installation.ID, "", "queued", 2}, {f.Installation.ID, "", "waiting", 1}}; !slices.Equal(jobs, want) {
		t.Errorf("jobs: %v, want %v", jobs, want)
	}
	runners, err := s.CountRunners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(runners, byState)
	if want := []store.Count{{f.Installation.ID, f.Pool.ID, "busy", 1}, {f.Installation.ID, f.Pool.ID, "failed", 1}, {f.Installation.ID, f.Pool.ID, "provisioning", 1}}; !slices.Equal(runners, want) {
		t.Errorf("runners: %v, want %v", runners, want)
	}
}
