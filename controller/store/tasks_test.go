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
