package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestDemandJobs(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	ctx := context.Background()
	for i, st := range []store.JobState{store.JobQueued, store.JobWaiting, store.JobInProgress, store.JobCompleted, store.JobQueued, store.JobQueued} {
		u := store.JobUpdate{
			InstallationID: f.Installation.ID, GitHubID: int64(i + 1), Repository: fmt.Sprint("acme/", i), State: st,
			Labels: []string{"self-hosted", fmt.Sprint("l", i/5)}, RunnerName: fmt.Sprint("runner-", i),
		}
		if i == 4 {
			u.Labels = nil
		}
		if _, err := s.UpsertJob(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := s.Jobs(ctx, store.JobFilter{States: []store.JobState{store.JobQueued, store.JobInProgress}})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, j := range whole {
		want = append(want, fmt.Sprint(j.ID, j.InstallationID, j.Repository, j.Labels, j.State, j.RunnerName, j.SeenAt))
	}
	list, err := s.DemandJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range list {
		got = append(got, fmt.Sprint(j.ID, j.InstallationID, j.Repository, j.Labels, j.State, j.RunnerName, j.SeenAt))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != 4 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDemandRunners(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	ctx := context.Background()
	ways := [][]store.RunnerState{
		{}, {store.RunnerRegistering}, {store.RunnerRegistering, store.RunnerIdle}, {store.RunnerRegistering, store.RunnerBusy},
		{store.RunnerDraining}, {store.RunnerFailed}, {store.RunnerRemoved}, {store.RunnerFailed, store.RunnerRemoved},
	}
	want := map[string]string{}
	for i, way := range ways {
		rows := []store.Runner{{Name: fmt.Sprint("r", i), PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID, DemandJobID: fmt.Sprint("job_", i)}}
		if err := s.CreateRunners(ctx, rows); err != nil {
			t.Fatal(err)
		}
		r := rows[0]
		for _, st := range way {
			var err error
			if r, _, err = s.TransitionRunner(ctx, r.ID, st, store.Change{}); err != nil {
				t.Fatal(err)
			}
		}
		if r.State != store.RunnerRemoved {
			want[r.ID] = fmt.Sprint(r.Name, r.PoolID, r.HostID, r.State, r.JobID, r.DemandJobID, r.CreatedAt, r.StateAt, r.FinishedAt)
		}
	}
	list, err := s.DemandRunners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 6 || len(want) != 6 {
		t.Errorf("%d runners, want 6 of %d", len(list), len(want))
	}
	for _, r := range list {
		if got := fmt.Sprint(r.Name, r.PoolID, r.HostID, r.State, r.JobID, r.DemandJobID, r.CreatedAt, r.StateAt, r.FinishedAt); got != want[r.ID] {
			t.Errorf("got %s, want %s", got, want[r.ID])
		}
	}
}
