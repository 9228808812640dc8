package controller

import (
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A runner that drains while it is busy is stopped after five minutes; if its host says that is done and no end is ever reported, it is removed.
func TestBusyDrainEndsAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	id := r.job("wait")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": id, "runner_name": row.Name}), "")
	r.runner(store.RunnerBusy)
	if _, _, err := r.c().transition(t.Context(), row.ID, store.RunnerDraining, store.Change{Message: "a test drains it"}); err != nil {
		t.Fatal(err)
	}
	r.clock.advance(DrainGrace - time.Second)
	h.beat()
	r.c().housekeep(t.Context())
	if ts, _ := r.st.Tasks(t.Context(), row.ID); len(ts) != 1 {
		t.Errorf("the runner was stopped before its grace was over: %d tasks", len(ts))
	}
	r.clock.advance(time.Second)
	r.c().housekeep(t.Context())
	r.c().housekeep(t.Context())
	stop := h.task()
	if stop.Kind != protocol.TaskStop || stop.Stop == nil || stop.Stop.Grace.Duration() != StopGrace {
		t.Fatalf("asked for %+v", stop)
	}
	if err := h.answer(stop, true, ""); err != nil {
		t.Fatal(err)
	}
	r.c().housekeep(t.Context())
	rm := h.task()
	if rm.Kind != protocol.TaskRemove {
		t.Fatalf("asked for %s after a stop that led to no report", rm.Kind)
	}
	if err := h.answer(rm, true, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := r.st.Runner(t.Context(), row.ID); err != nil || got.State != store.RunnerRemoved {
		t.Errorf("the runner is %s: %v", got.State, err)
	}
}

// An ephemeral runner that does not exit after its job has completed is removed a minute later, however often GitHub repeats the news
// and whichever of it arrived.
func TestRunnerThatOutlivesItsJobIsRemoved(t *testing.T) {
	t.Parallel()
	for name, heard := range map[string][]string{"all news": {"in_progress", "completed"}, "only the end": {"completed"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, h := noAgents(t, nil)
			id := r.job("wait")
			create := h.task()
			if err := h.answer(create, true, ""); err != nil {
				t.Fatal(err)
			}
			row := r.runner(store.RunnerRegistering)
			h.report(protocol.RunnerReport{RunnerID: row.ID, Phase: protocol.PhaseRunning, WorkloadID: row.WorkloadID})
			end := map[string]any{"id": id, "runner_name": row.Name, "conclusion": "success", "completed_at": r.clock.now().UTC().Format(time.RFC3339)}
			for _, action := range heard {
				r.deliver("", payload("acme/widgets", action, end), "")
			}
			r.c().housekeep(t.Context())
			r.clock.advance(ExitGrace)
			r.deliver("", payload("acme/widgets", "completed", end), "")
			h.beat()
			r.c().housekeep(t.Context())
			rm := h.task()
			if rm.Kind != protocol.TaskRemove || rm.RunnerID != row.ID {
				t.Fatalf("asked for %+v", rm)
			}
			if err := h.answer(rm, true, ""); err != nil {
				t.Fatal(err)
			}
			if got, err := r.st.Runner(t.Context(), row.ID); err != nil || got.State != store.RunnerRemoved {
				t.Errorf("the runner is %s: %v", got.State, err)
			}
		})
	}
}

// A retired runner whose host could not remove it is asked about again, until it is gone.
func TestFailedRemovalIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	id := r.job("ok")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	r.runner(store.RunnerRegistering)
	r.gh.CancelJob(id)
	for n := range 3 {
		rm := h.task()
		if rm.Kind != protocol.TaskRemove {
			t.Fatalf("asked for %s", rm.Kind)
		}
		if err := h.answer(rm, n == 2, "the engine is busy"); err != nil {
			t.Fatal(err)
		}
		r.c().housekeep(t.Context())
	}
	r.nothingLeft()
}
