package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

const (
	kindCreate = string(protocol.TaskCreate)
	kindStop   = string(protocol.TaskStop)
	kindRemove = string(protocol.TaskRemove)
	kindLogs   = string(protocol.TaskStreamLogs)
)

func minute(string) time.Duration { return time.Minute }
func three(string) int            { return 3 }

// enqueue queues a task.
func enqueue(t tester, s *store.Store, task store.Task) store.Task {
	t.Helper()
	got, fresh, err := s.EnqueueTask(t.Context(), task)
	if err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	return got
}

// lease leases a task that must be there.
func lease(t tester, s *store.Store, hostID string) store.Task {
	t.Helper()
	task, err := s.LeaseTask(t.Context(), hostID, minute)
	if err != nil || task == nil {
		t.Fatal("no task leased:", err)
	}
	return *task
}

func TestTasksAreOfferedInOrderOfUrgencyThenOfArrival(t *testing.T) {
	t.Parallel()
	c := newClock() // stands still: the order must not need it
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	other := storetest.Join(t, s, "host-2")
	for i, kind := range []string{kindLogs, kindCreate, kindCreate, kindStop, kindLogs, kindRemove, kindCreate} {
		enqueue(t, s, store.Task{ID: fmt.Sprintf("tsk_%d", i), HostID: f.Host.ID, RunnerID: fmt.Sprintf("run_%d", i), Kind: kind})
	}
	enqueue(t, s, store.Task{HostID: other.ID, Kind: kindStop})
	var got []string
	for {
		task, err := s.LeaseTask(t.Context(), f.Host.ID, minute)
		if err != nil {
			t.Fatal(err)
		}
		if task == nil {
			break
		}
		got = append(got, task.ID)
	}
	want := []string{"tsk_3", "tsk_5", "tsk_1", "tsk_2", "tsk_6", "tsk_0", "tsk_4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATaskFromOfferToAnswer(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop, Payload: []byte(`{"grace_s":10}`)})
	if same, fresh, err := s.EnqueueTask(t.Context(), store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop}); err != nil || fresh || same.ID != task.ID {
		t.Errorf("the same again: %v, %v, %v", same.ID, fresh, err)
	}
	now := c.step(time.Second)
	got := lease(t, s, f.Host.ID)
	if got.ID != task.ID || got.State != store.TaskLeased || got.Attempt != 1 || !got.OfferedAt.Equal(now) || !got.LeaseUntil.Equal(now.Add(time.Minute)) || string(got.Payload) != `{"grace_s":10}` {
		t.Errorf("leased %+v", got)
	}
	if stored, err := s.Task(t.Context(), task.ID); err != nil || !cmp.Equal(stored, got) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	if end, some, err := s.NextLeaseEnd(t.Context()); err != nil || !some || !end.Equal(got.LeaseUntil) {
		t.Errorf("next lease end %v, %v, %v", end, some, err)
	}
	if same, fresh, err := s.EnqueueTask(t.Context(), store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop}); err != nil || fresh || same.State != store.TaskLeased {
		t.Errorf("the same again while leased: %v, %v, %v", same.ID, fresh, err)
	}
	for name, bad := range map[string]func() error{
		"another host": func() error {
			_, _, err := s.FinishTask(t.Context(), "hst_other", task.ID, 1, true, "")
			return err
		},
		"another attempt": func() error {
			_, _, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 2, true, "")
			return err
		},
		"no attempt": func() error {
			_, _, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 0, true, "")
			return err
		},
	} {
		if err := bad(); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
	now = c.step(time.Second)
	done, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, false, "no such runner")
	if err != nil || !changed || done.State != store.TaskFailed || done.Result != "no such runner" || !done.EndedAt.Equal(now) || len(done.Payload) == 0 {
		t.Errorf("finished %+v, %v, %v", done, changed, err)
	}
	again, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, true, "")
	if err != nil || changed || again.State != store.TaskFailed {
		t.Errorf("answered again: %+v, %v, %v", again, changed, err)
	}
	if stored, err := s.Task(t.Context(), task.ID); err != nil || len(stored.Payload) != 0 {
		t.Errorf("an ended task keeps its payload %q (%v)", stored.Payload, err)
	}
	if _, some, err := s.NextLeaseEnd(t.Context()); err != nil || some {
		t.Errorf("a lease is left: %v, %v", some, err)
	}
	enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop}) // a new one is welcome now
	if _, _, err := s.FinishTask(t.Context(), f.Host.ID, "tsk_none", 1, true, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such task: %v", err)
	}
	if _, _, err := s.EnqueueTask(t.Context(), store.Task{HostID: "hst_none", Kind: kindStop}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such host: %v", err)
	}
}

func TestLeasesExpireAreOfferedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindCreate, Payload: []byte("x")})
	for attempt := 1; attempt <= 3; attempt++ {
		if got := lease(t, s, f.Host.ID); got.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", got.Attempt, attempt)
		}
		c.step(time.Minute - time.Microsecond)
		if re, dropped, err := s.ExpireLeases(t.Context(), three); err != nil || len(re)+len(dropped) != 0 {
			t.Fatal("expired too early", re, dropped, err)
		}
		c.step(time.Microsecond)
		re, dropped, err := s.ExpireLeases(t.Context(), three)
		if err != nil {
			t.Fatal(err)
		}
		if attempt < 3 && (len(re) != 1 || len(dropped) != 0 || re[0].State != store.TaskPending || string(re[0].Payload) != "x") {
			t.Fatalf("attempt %d: requeued %v, dropped %v", attempt, re, dropped)
		}
		if attempt == 3 && (len(re) != 0 || len(dropped) != 1 || dropped[0].State != store.TaskFailed || dropped[0].Result == "") {
			t.Fatalf("attempt %d: requeued %v, dropped %v", attempt, re, dropped)
		}
	}
	if got, err := s.LeaseTask(t.Context(), f.Host.ID, minute); err != nil || got != nil {
		t.Errorf("offered a fourth time: %v, %v", got, err)
	}
	if got, err := s.Task(t.Context(), task.ID); err != nil || got.State != store.TaskFailed || got.EndedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestALateAnswer(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	expire := func() {
		c.step(time.Hour)
		if re, _, err := s.ExpireLeases(t.Context(), three); err != nil || len(re) != 1 {
			t.Fatal(re, err)
		}
	}
	t.Run("of an older attempt is a conflict", func(t *testing.T) {
		task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindStop})
		lease(t, s, f.Host.ID)
		expire()
		lease(t, s, f.Host.ID)
		if _, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, true, ""); !errors.Is(err, store.ErrConflict) || changed {
			t.Errorf("got %v, %v", changed, err)
		}
		if _, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 2, true, ""); err != nil || !changed {
			t.Errorf("the newer attempt: %v, %v", changed, err)
		}
		if _, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, true, ""); !errors.Is(err, store.ErrConflict) || changed {
			t.Errorf("once more, now that the task is done: %v, %v", changed, err)
		}
	})
	t.Run("of the last attempt counts until it is offered again", func(t *testing.T) {
		task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_2", Kind: kindStop})
		lease(t, s, f.Host.ID)
		expire()
		got, changed, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 1, true, "")
		if err != nil || !changed || got.State != store.TaskDone {
			t.Errorf("got %+v, %v, %v", got, changed, err)
		}
		if next, err := s.LeaseTask(t.Context(), f.Host.ID, minute); err != nil || next != nil {
			t.Errorf("it is offered again: %v, %v", next, err)
		}
	})
	t.Run("of a task never offered is a conflict", func(t *testing.T) {
		task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_3", Kind: kindStop})
		if _, _, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, 0, true, ""); !errors.Is(err, store.ErrConflict) {
			t.Error(err)
		}
	})
}

func TestConcurrentLeasesNeverGiveATaskTwice(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	const tasks, takers = 60, 12
	for i := range tasks {
		enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: fmt.Sprint("run_", i), Kind: kindCreate})
	}
	var mu sync.Mutex
	given := make(map[string]int)
	var wg sync.WaitGroup
	for range takers {
		wg.Go(func() {
			for {
				task, err := s.LeaseTask(context.Background(), f.Host.ID, minute)
				if err != nil {
					t.Error(err)
				}
				if task == nil {
					return
				}
				mu.Lock()
				given[task.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range given {
		if n != 1 {
			t.Errorf("%s was given %d times", id, n)
		}
	}
	if len(given) != tasks {
		t.Errorf("%d of %d tasks were given", len(given), tasks)
	}
}

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

// A payload carries a JIT configuration: the file must not show it.
func TestPayloadsAndKeysAreSealedInTheFile(t *testing.T) {
	t.Parallel()
	path := storetest.Dir(t) + "/zoomies.db"
	s := storetest.OpenWith(t, store.Options{Path: path})
	f := storetest.Seed(t, s)
	enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_1", Kind: kindCreate, Payload: []byte("the-jit-configuration")})
	var stored string
	db := raw(t, path)
	for _, query := range []string{"SELECT payload FROM tasks", "SELECT private_key FROM installations", "SELECT webhook_secret FROM installations"} {
		if err := db.QueryRow(query).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(stored, "z1.") || strings.Contains(stored, "the-jit") || strings.Contains(stored, "private key") {
			t.Errorf("%s is %q", query, stored)
		}
	}
}

// Whatever is done to a host's queue, in any order: a task has one lease at a time, is never
// offered more often than allowed, and ends once.
func TestAnyUseOfTheQueueKeepsItsPromises(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	rapid.Check(t, func(t *rapid.T) {
		if _, err := s.FailHostTasks(t.Context(), f.Host.ID, "the next run"); err != nil {
			t.Fatal(err)
		}
		leased := make(map[string]store.Task) // with the agent, as the agent knows it
		ended := make(map[string]bool)
		run := store.NewID("run_")
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				kind := rapid.SampledFrom([]string{kindStop, kindRemove, kindLogs}).Draw(t, "kind")
				if _, _, err := s.EnqueueTask(t.Context(), store.Task{HostID: f.Host.ID, RunnerID: run, Kind: kind}); err != nil {
					t.Fatal(err)
				}
			},
			"lease": func(t *rapid.T) {
				task, err := s.LeaseTask(t.Context(), f.Host.ID, minute)
				if err != nil {
					t.Fatal(err)
				}
				if task == nil {
					return
				}
				if before, had := leased[task.ID]; ended[task.ID] || had && before.LeaseUntil.After(c.now()) || task.Attempt > 3 || had && task.Attempt != before.Attempt+1 {
					t.Fatalf("offered %+v after %+v", task, before)
				}
				leased[task.ID] = *task
			},
			"answer": func(t *rapid.T) {
				for id, task := range leased {
					_, changed, err := s.FinishTask(t.Context(), f.Host.ID, id, task.Attempt, rapid.Bool().Draw(t, "ok"), "")
					if err != nil || changed == ended[id] {
						t.Fatalf("answered %+v: %v, %v", task, changed, err)
					}
					ended[id] = true
					break
				}
			},
			"wait": func(*rapid.T) { c.step(40 * time.Second) },
			"expire": func(t *rapid.T) {
				re, dropped, err := s.ExpireLeases(t.Context(), three)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range append(re, dropped...) {
					if ended[task.ID] || leased[task.ID].LeaseUntil.After(c.now()) {
						t.Fatalf("expired %+v", task)
					}
				}
				for _, task := range dropped {
					ended[task.ID] = true
				}
			},
			"": func(t *rapid.T) {
				kinds := make(map[string]int)
				all, err := s.Tasks(t.Context(), run)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range all {
					if task.State == store.TaskPending || task.State == store.TaskLeased {
						kinds[task.Kind]++
					}
					if kinds[task.Kind] > 1 || (task.State == store.TaskLeased) == task.LeaseUntil.IsZero() {
						t.Fatalf("queue is %+v", all)
					}
				}
			},
		})
	})
}
