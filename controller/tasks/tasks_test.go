package tasks_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	"github.com/zoomies-fleet/zoomies/controller/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a queue over a real store, and one runner to ask things for.
type bench struct {
	t    *testing.T
	st   *store.Store
	q    *tasks.Queue
	host store.Host
	run  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	st := storetest.OpenWith(t, store.Options{Now: time.Now})
	f := storetest.Seed(t, st)
	rows := []store.Runner{{ID: "run_1", Name: "zoomies-1", PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID, Backend: "podman"}}
	if err := st.CreateRunners(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, st: st, q: tasks.New(st, time.Now, slog.New(slog.DiscardHandler)), host: f.Host, run: "run_1"}
}

func (b *bench) ask(kind protocol.TaskKind) store.Task {
	b.t.Helper()
	task, _, err := b.q.Enqueue(b.t.Context(), b.host.ID, protocol.Task{Kind: kind, RunnerID: b.run})
	if err != nil {
		b.t.Fatal(err)
	}
	return task
}

func (b *bench) poll(wait time.Duration) *protocol.Task {
	b.t.Helper()
	task, err := b.q.Poll(b.t.Context(), b.host.ID, wait)
	if err != nil {
		b.t.Fatal(err)
	}
	return task
}

// A lease that ends without an answer offers the task again, three times in all, and then it is given up. Time passes
// in a bubble: the reaper sleeps until exactly then.
func TestLeaseEndsOfferAgainAndThenGiveUp(t *testing.T) {
	for kind, lease := range map[protocol.TaskKind]time.Duration{
		protocol.TaskCreate: tasks.CreateLease, protocol.TaskStop: tasks.StopLease, protocol.TaskRemove: tasks.RemoveLease,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				ctx, stop := context.WithCancel(t.Context())
				var mu sync.Mutex
				var again, dropped []store.Task
				done := make(chan struct{})
				go func() {
					defer close(done)
					b.q.Reap(ctx, func(x store.Task) { mu.Lock(); again = append(again, x); mu.Unlock() },
						func(x store.Task) { mu.Lock(); dropped = append(dropped, x); mu.Unlock() })
				}()
				asked := b.ask(kind)
				for attempt := 1; attempt <= tasks.MaxOffers; attempt++ {
					task := b.poll(0)
					if task == nil || task.ID != asked.ID || task.Attempt != attempt {
						t.Fatalf("offer %d: %+v", attempt, task)
					}
					if twice := b.poll(0); twice != nil {
						t.Fatalf("offer %d was made twice", attempt)
					}
					<-time.After(lease - time.Second) // of the bubble's clock
					synctest.Wait()
					mu.Lock()
					if n := len(again) + len(dropped); n != attempt-1 {
						t.Errorf("offer %d was taken back before its lease ended", attempt)
					}
					mu.Unlock()
					<-time.After(2 * time.Second)
					synctest.Wait()
				}
				mu.Lock()
				if len(again) != tasks.MaxOffers-1 || len(dropped) != 1 {
					t.Errorf("offered again %d times and given up %d times", len(again), len(dropped))
				}
				mu.Unlock()
				if task := b.poll(0); task != nil {
					t.Errorf("a task that was given up is offered: %+v", task)
				}
				stop()
				<-done
			})
		})
	}
}

// A new run of a host's agent is given back at once what the old one had.
func TestNewAgentGetsBackWhatTheOldOneHad(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begin := func(instance string) {
		if err := b.q.Begin(t.Context(), b.host.ID, instance); err != nil {
			t.Fatal(err)
		}
	}
	begin("one")
	b.ask(protocol.TaskRemove)
	if task := b.poll(0); task == nil || task.Attempt != 1 {
		t.Fatalf("first offer: %+v", task)
	}
	begin("one")
	if task := b.poll(0); task != nil {
		t.Fatalf("the same agent is offered its own task again: %+v", task)
	}
	begin("two")
	if task := b.poll(0); task == nil || task.Attempt != 2 {
		t.Fatalf("the new agent got %+v", task)
	}
	// A controller that was restarted knows which agent it is from the store.
	b.q = tasks.New(b.st, time.Now, slog.New(slog.DiscardHandler))
	begin("two")
	if task := b.poll(0); task != nil {
		t.Fatalf("a restart of the controller took a task from the agent that has it: %+v", task)
	}
}

// A poll whose connection died, unnoticed, gets no task once the agent polls again.
func TestTaskGoesToTheLatestPoll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := make(chan *protocol.Task, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		task, err := b.q.Poll(t.Context(), b.host.ID, time.Minute)
		if err != nil {
			t.Error(err)
		}
		old <- task
	}()
	<-began
	latest := make(chan *protocol.Task, 1)
	for b.poll(0) != nil { // ends the old poll if it had begun; else it is the latest, and is ended below
	}
	go func() {
		task, err := b.q.Poll(t.Context(), b.host.ID, time.Minute)
		if err != nil {
			t.Error(err)
		}
		latest <- task
	}()
	var first *protocol.Task
	select { // exactly one of the two is superseded
	case first = <-old:
		old = latest
	case first = <-latest:
	}
	if first != nil {
		t.Fatalf("a poll got %+v before anything was asked", first)
	}
	b.ask(protocol.TaskRemove)
	if task := <-old; task == nil {
		t.Error("the latest poll got nothing")
	}
}

// A task that is written while a host's poll waits is delivered at once, and an outstanding one is not written twice.
func TestWaitingPollIsWoken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := make(chan *protocol.Task, 1)
	go func() {
		task, err := b.q.Poll(t.Context(), b.host.ID, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- task
	}()
	first := b.ask(protocol.TaskStop)
	if second := b.ask(protocol.TaskStop); second.ID != first.ID {
		t.Error("one stop was asked for twice")
	}
	if task := <-got; task == nil || task.ID != first.ID || task.Kind != protocol.TaskStop {
		t.Errorf("the poll got %+v", task)
	}
}
