package store_test

import (
	"errors"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestEnqueueCreate(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	without := func() int {
		list, err := s.RunnersWithoutCreate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	r := newRunner(t, s, f)
	if without() != 1 {
		t.Error("a runner that was never minted is not found")
	}
	task, err := s.EnqueueCreate(t.Context(), r.ID, 42, store.Task{Payload: []byte("jit")})
	if err != nil || task.HostID != f.Host.ID || task.RunnerID != r.ID || task.Kind != kindCreate {
		t.Fatal(task, err)
	}
	if got, err := s.Runner(t.Context(), r.ID); err != nil || got.GitHubID != 42 || without() != 0 {
		t.Errorf("registration %d, %d without a create (%v)", got.GitHubID, without(), err)
	}
	twice := func() error {
		_, err := s.EnqueueCreate(t.Context(), r.ID, 43, store.Task{})
		return err
	}
	if err := twice(); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second create: %v", err)
	}
	lease(t, s, f.Host.ID)
	if _, _, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, false, "no"); err != nil {
		t.Fatal(err)
	}
	if err := twice(); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second create after the first ended: %v", err)
	}
	if got, _ := s.Runner(t.Context(), r.ID); got.GitHubID != 42 {
		t.Errorf("a refused create changed the registration to %d", got.GitHubID)
	}
	gone := at(t, s, f, store.RunnerDraining)
	if _, err := s.EnqueueCreate(t.Context(), gone.ID, 44, store.Task{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a draining runner: %v", err)
	}
	if got, err := s.Tasks(t.Context(), gone.ID); err != nil || len(got) != 0 {
		t.Errorf("it has tasks %v (%v)", got, err)
	}
	if _, err := s.EnqueueCreate(t.Context(), "run_none", 44, store.Task{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such runner: %v", err)
	}
}

func TestCancelAndFailTasks(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	leased := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop, Payload: []byte("x")})
	lease(t, s, f.Host.ID)
	create := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindCreate, Payload: []byte("x")})
	enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindLogs})
	other := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_2", Kind: kindCreate})
	for _, test := range []struct {
		kinds []string
		want  int
	}{{[]string{kindCreate, kindRemove}, 1}, {[]string{kindCreate}, 0}, {nil, 1}, {nil, 0}} {
		if n, err := s.CancelTasks(t.Context(), "run_1", test.kinds...); err != nil || n != test.want {
			t.Errorf("cancelling %v: %d, %v, want %d", test.kinds, n, err, test.want)
		}
	}
	if got, err := s.Task(t.Context(), create.ID); err != nil || got.State != store.TaskCancelled || got.EndedAt.IsZero() || len(got.Payload) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := s.FailHostTasks(t.Context(), f.Host.ID, "the host is lost"); err != nil || n != 2 {
		t.Errorf("failed %d, %v, want 2", n, err)
	}
	for _, id := range []string{leased.ID, other.ID} {
		if got, err := s.Task(t.Context(), id); err != nil || got.State != store.TaskFailed || got.Result != "the host is lost" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
