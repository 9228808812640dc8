package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	"github.com/zoomies-fleet/zoomies/controller/tasks"
)

// rig is a queue with one host, and a clock that only the test moves.
type rig struct {
	t    *testing.T
	now  time.Time
	st   *store.Store
	q    *tasks.Queue
	host string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return r.now }
	r.st = storetest.OpenWith(t, store.Options{Now: clock})
	r.host = storetest.Join(t, r.st, "host-1").ID
	r.q = r.queue()
	return r
}

// queue is a queue as a controller that has just started has it.
func (r *rig) queue() *tasks.Queue {
	return tasks.New(r.st, func() time.Time { return r.now }, slog.New(slog.DiscardHandler))
}

func (r *rig) enqueue(kind protocol.TaskKind) string {
	r.t.Helper()
	t, _, err := r.q.Enqueue(r.t.Context(), r.host, protocol.Task{Kind: kind, RunnerID: store.NewID("run_")})
	if err != nil {
		r.t.Fatal(err)
	}
	return t.ID
}

// poll is a poll of one run of the agent that says what it holds, as the controller serves it: nil for an agent that does not.
func (r *rig) poll(run string, held []string) (*protocol.Task, error) {
	r.t.Helper()
	ctx := r.t.Context()
	if held != nil {
		ctx = protocol.WithHeld(ctx, held)
	}
	if err := r.q.Begin(ctx, r.host, run); err != nil {
		return nil, err
	}
	return r.q.Poll(ctx, r.host, 0)
}

// gets polls and wants a task in an attempt; attempt 0 wants none.
func (r *rig) gets(run string, held []string, id string, attempt int) {
	r.t.Helper()
	t, err := r.poll(run, held)
	switch {
	case err != nil:
		r.t.Fatal(err)
	case attempt == 0 && t != nil:
		r.t.Fatalf("got %s in attempt %d, want nothing", t.ID, t.Attempt)
	case attempt > 0 && (t == nil || t.ID != id || t.Attempt != attempt):
		r.t.Fatalf("got %+v, want %s in attempt %d", t, id, attempt)
	}
}

// reap runs the reaper until it has given up n tasks, and returns them.
func (r *rig) reap(n int) (dropped []store.Task) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	r.q.Reap(ctx, func(store.Task) {}, func(t store.Task) {
		if dropped = append(dropped, t); len(dropped) == n {
			cancel()
		}
	})
	return dropped
}

// A create's lease is 20 minutes: a delivery that the network lost must not cost that.
func TestALostDeliveryIsOfferedAgainAtTheNextPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	none := []string{}
	id := r.enqueue(protocol.TaskCreate)
	r.gets("a", none, id, 1) // the answer is lost
	r.gets("a", none, id, 2) // at once
	r.gets("a", []string{id}, "", 0)
	r.gets("a", nil, "", 0) // an agent that does not say what it holds
	other := r.enqueue(protocol.TaskStop)
	r.gets("a", []string{id}, other, 1)
	r.gets("a", []string{id}, other, 2)
	r.gets("a", []string{other}, id, 3) // its answer was lost again, or it has forgotten it
	if task, err := r.st.Task(t.Context(), id); err != nil || task.State != store.TaskLeased || !task.LeaseUntil.After(r.now) {
		t.Errorf("as long as nobody says that it was lost it has its lease: %+v, %v", task, err)
	}
	r.gets("a", []string{other}, "", 0)                        // lost for the third time: nobody has it, as when its agent is gone
	if gone := r.reap(1); len(gone) != 1 || gone[0].ID != id { // without waiting for the lease
		t.Errorf("gave up %v", gone)
	}
}

// The poll before the one that says what is held may be leasing a task that moment: nobody will ever hold it.
func TestAPollThatWasGivenUpLeasesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := r.q.Begin(t.Context(), r.host, "a"); err != nil {
			t.Fatal(err)
		}
		got := make(chan *protocol.Task, 1)
		go func() {
			task, _ := r.q.Poll(t.Context(), r.host, time.Minute)
			got <- task
		}()
		synctest.Wait()
		if err := r.q.Begin(protocol.WithHeld(t.Context(), nil), r.host, "a"); err != nil {
			t.Fatal(err)
		}
		id := r.enqueue(protocol.TaskStop)
		synctest.Wait()
		task, err := r.q.Poll(t.Context(), r.host, 10*time.Second)
		if dead := <-got; dead != nil || err != nil || task == nil || task.ID != id {
			t.Errorf("the poll that was given up got %+v, the one after it %+v, %v", dead, task, err)
		}
	})
}

// Every restart of an agent offers what it had again, up to the cap: then the task is given up like any other.
func TestRestartsOfAnAgentDoNotOfferATaskForEver(t *testing.T) {
	t.Parallel()
	for _, kind := range []protocol.TaskKind{protocol.TaskCreate, protocol.TaskStop, protocol.TaskStreamLogs} {
		r := newRig(t)
		id := r.enqueue(kind)
		for run := range tasks.Offers(string(kind)) {
			r.gets(fmt.Sprint("run-", run), nil, id, run+1)
		}
		r.gets("another", nil, "", 0)
		gone := r.reap(1) // without waiting for the lease
		if len(gone) != 1 || gone[0].ID != id || gone[0].State != store.TaskFailed || gone[0].Attempt != tasks.Offers(string(kind)) {
			t.Errorf("%s: gave up %+v", kind, gone)
		}
		r.gets("one more", nil, "", 0)
	}
}

// A27: two machines with one agent.json must not take each other's tasks away at every poll.
func TestACloneOfAHostIsRefused(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"while the controller runs": false, "after a restart of the controller": true} {
		r := newRig(t)
		id := r.enqueue(protocol.TaskCreate)
		r.gets("first", nil, id, 1)
		if restarted {
			r.q = r.queue()
		}
		r.gets("clone", nil, id, 2) // it may as well be the first one's next run
		r.gets("first", nil, id, 3) // but an earlier run does not come back
		for range 20 {
			r.now = r.now.Add(time.Minute)
			if task, err := r.poll("clone", nil); !errors.Is(err, protocol.ErrConflict) || task != nil {
				t.Fatalf("%s: the clone got %v, %v", name, task, err)
			}
			r.gets("first", nil, "", 0)
		}
		if task, err := r.st.Task(t.Context(), id); err != nil || task.State != store.TaskLeased || task.Attempt != 3 {
			t.Errorf("%s: the task is %+v, %v", name, task, err)
		}
		if _, err := r.poll("the clone's next run", nil); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%s: the clone got in by a restart: %v", name, err)
		}
		// When the first falls silent, whoever is left is the host.
		r.now = r.now.Add(2*protocol.MaxWait + time.Second)
		r.gets("the first's next run", nil, "", 0)
		r.gets("the first's next run", nil, "", 0)
	}
}

// An agent that is started again, however often, is let in at once.
func TestRestartsAreNoClones(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for run := range 20 {
		r.gets(fmt.Sprint("run-", run), []string{}, "", 0)
		r.gets(fmt.Sprint("run-", run), []string{}, "", 0)
	}
}

// A27: what a cloned machine holds, or says has ended, is not the host's. Only the run whose polls are answered speaks.
func TestOnlyTheRunThatPollsSpeaksForItsHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if !b.q.Speaks(b.host.ID, "first") {
		t.Error("before anybody has polled, nobody is an impostor")
	}
	if err := b.q.Begin(t.Context(), b.host.ID, "first"); err != nil {
		t.Fatal(err)
	}
	if !b.q.Speaks(b.host.ID, "first") || b.q.Speaks(b.host.ID, "clone") {
		t.Error("a run that does not poll speaks for the host")
	}
}
