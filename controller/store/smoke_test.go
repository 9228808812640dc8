package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestARunnersWholeLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	fresh, c, err := s.IngestDelivery(ctx, store.Delivery{ID: "g1", InstallationID: f.Installation.ID}, &store.JobUpdate{
		InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued, Labels: []string{"zoomies"}})
	if err != nil || !fresh || !c.Changed {
		t.Fatal(fresh, c, err)
	}
	rs := []store.Runner{{Name: "zoomies-a", PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID, Ephemeral: true}}
	if err := s.CreateRunners(ctx, rs); err != nil {
		t.Fatal(err)
	}
	if list, err := s.RunnersWithoutCreate(ctx); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	task, err := s.EnqueueCreate(ctx, rs[0].ID, 99, store.Task{Payload: []byte(`{"jit":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ttl := func(string) time.Duration { return time.Minute }
	got, err := s.LeaseTask(ctx, f.Host.ID, ttl)
	if err != nil || got == nil || got.ID != task.ID || got.Attempt != 1 || string(got.Payload) != `{"jit":"x"}` {
		t.Fatal(got, err)
	}
	if _, changed, err := s.FinishTask(ctx, f.Host.ID, task.ID, 1, true, ""); err != nil || !changed {
		t.Fatal(changed, err)
	}
	for _, to := range []store.RunnerState{store.RunnerRegistering, store.RunnerIdle} {
		if _, changed, err := s.TransitionRunner(ctx, rs[0].ID, to, store.Change{}); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	r, changed, err := s.AssignJob(ctx, c.Job.ID, rs[0].ID)
	if err != nil || !changed || r.State != store.RunnerBusy || r.JobID != c.Job.ID {
		t.Fatal(r, changed, err)
	}
	if _, _, err := s.TransitionRunner(ctx, r.ID, store.RunnerRemoved, store.Change{ExitCode: new(int)}); err != nil {
		t.Fatal(err)
	}
	r, err = s.Runner(ctx, r.ID)
	if err != nil || r.FinishedAt.IsZero() || r.ExitCode == nil {
		t.Fatal(r, err)
	}
}
