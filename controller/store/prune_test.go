package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// What is over and old goes; what is not over, not old, or still referred to stays.
func TestPrune(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	var deliveries int
	batch := func() (done, open store.Job, removed, uncleaned, live store.Runner) {
		for range 600 { // more than one transaction's worth
			deliveries++
			if _, _, err := s.IngestDelivery(t.Context(), store.Delivery{ID: store.NewID("guid-")}, nil); err != nil {
				t.Fatal(err)
			}
		}
		job := func(state store.JobState) store.Job {
			deliveries++
			_, ch, err := s.IngestDelivery(t.Context(), store.Delivery{ID: store.NewID("guid-")},
				&store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: int64(deliveries), State: state})
			if err != nil {
				t.Fatal(err)
			}
			return ch.Job
		}
		done, open = job(store.JobCompleted), job(store.JobQueued)
		removed, uncleaned, live = at(t, s, f, store.RunnerRemoved), at(t, s, f, store.RunnerRemoved), newRunner(t, s, f)
		if err := errors.Join(s.SetRunnerDeregistered(t.Context(), removed.ID), s.SetRunnerCleaned(t.Context(), removed.ID)); err != nil {
			t.Fatal(err)
		}
		create, err := s.EnqueueCreate(t.Context(), live.ID, 1, store.Task{})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range []store.Task{create, enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: removed.ID, Kind: kindStop})} {
			if got := lease(t, s, f.Host.ID); got.ID == "" {
				t.Fatal("nothing leased")
			}
			_ = task
		}
		for _, id := range []string{live.ID, removed.ID} {
			tasks, err := s.Tasks(t.Context(), id)
			if err != nil || len(tasks) != 1 {
				t.Fatal(tasks, err)
			}
			if _, _, err := s.FinishTask(t.Context(), f.Host.ID, tasks[0].ID, 1, true, ""); err != nil {
				t.Fatal(err)
			}
		}
		return done, open, removed, uncleaned, live
	}
	done, open, removed, uncleaned, live := batch()
	c.step(time.Hour)
	cut := c.now()
	c.step(time.Hour)
	newDone, _, newRemoved, _, _ := batch()

	// Of the first batch: 602 deliveries, one job, one runner, one task.
	if n, err := s.Prune(t.Context(), cut); err != nil || n != 605 {
		t.Errorf("pruned %d, %v, want 605", n, err)
	}
	if n, err := s.Prune(t.Context(), cut); err != nil || n != 0 {
		t.Errorf("pruned %d more, %v", n, err)
	}
	for id, want := range map[string]bool{done.ID: false, open.ID: true, newDone.ID: true} {
		if _, err := s.Job(t.Context(), id); (err == nil) != want {
			t.Errorf("job %s there: %v, want %v", id, err == nil, want)
		}
	}
	for id, want := range map[string]bool{removed.ID: false, uncleaned.ID: true, live.ID: true, newRemoved.ID: true} {
		if _, err := s.Runner(t.Context(), id); (err == nil) != want {
			t.Errorf("runner %s there: %v, want %v", id, err == nil, want)
		}
	}
	if list, err := s.RunnersWithoutCreate(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a minted runner lost its create task and would be minted again: %v, %v", list, err)
	}
}
