package store_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

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
			"restart": func(t *rapid.T) {
				b, err := s.BeginInstance(t.Context(), f.Host.ID, store.NewID("run_"), three)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range append(b.Released.Requeued, b.Released.Spent...) {
					if ended[task.ID] || task.Attempt != leased[task.ID].Attempt || (task.State == store.TaskPending) != (task.Attempt < 3) {
						t.Fatalf("restarted with %+v", task)
					}
					gone := leased[task.ID]
					gone.LeaseUntil = c.now() // nobody has it any more
					leased[task.ID] = gone
				}
			},
			"lose": func(t *rapid.T) {
				lost, err := s.ReleaseLost(t.Context(), f.Host.ID, nil, three)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range append(lost.Requeued, lost.Spent...) {
					if ended[task.ID] || (task.State == store.TaskPending) != (task.Attempt < 3) {
						t.Fatalf("lost %+v", task)
					}
					gone := leased[task.ID]
					gone.LeaseUntil = c.now()
					leased[task.ID] = gone
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
