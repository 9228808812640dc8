package controller

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Every order of a job's deliveries, each with an ID of its own and some of them twice, ends in the same row of the job
// and the same state of its runner.
func TestEveryOrderOfAJobsDeliveriesEndsTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	in := r.install("acme", "acme/widgets")
	p := r.pool(in, func(p *store.Pool) { p.Labels = []string{"nobody-asks-for-this"} })
	h := joinRow(t, r, "host-1")
	said := []struct {
		action string
		job    map[string]any
	}{
		{"queued", nil},
		{"waiting", nil},
		{"queued", nil},
		{"in_progress", map[string]any{"started_at": "2026-01-01T00:01:00Z"}},
		{"completed", map[string]any{"started_at": "2026-01-01T00:01:00Z", "completed_at": "2026-01-01T00:02:00Z", "conclusion": "success"}},
	}
	var first string
	for n, order := range permutations(len(said)) {
		id := int64(1000 + n)
		run := store.Runner{
			ID: fmt.Sprintf("run_%d", n), Name: runnerName(r.c().fleet, p.Name, fmt.Sprintf("run_%d", n)), PoolID: p.ID, HostID: h.ID, InstallationID: in.ID,
			Backend: "podman", Ephemeral: true,
		}
		rows := []store.Runner{run}
		if err := r.st.CreateRunners(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		for k, i := range order {
			job := map[string]any{"id": id, "run_id": id}
			maps.Copy(job, said[i].job)
			if said[i].action == "in_progress" || said[i].action == "completed" {
				job["runner_name"], job["runner_id"] = run.Name, 7
			}
			body := payload("acme/widgets", said[i].action, job)
			r.deliver("", body, "")
			if (n+k)%3 == 0 {
				r.deliver("", body, "") // the same news under another ID
			}
		}
		j := r.jobRow(in.ID, id)
		got, err := r.st.Runner(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.JobID != j.ID || j.RunnerID != got.ID {
			t.Errorf("order %v: job and runner are not linked: %q %q", order, got.JobID, j.RunnerID)
		}
		end := fmt.Sprintf("%s %s %s %s %s", j.State, j.Conclusion, j.StartedAt.UTC(), j.CompletedAt.UTC(), j.QueuedAt.UTC())
		if first == "" {
			first = end
		}
		if end != first || j.State != store.JobCompleted {
			t.Errorf("order %v ends as %s, another as %s", order, end, first)
		}
		// Whatever the row says until then, the decision counts it as taken, and its host's report ends it in one state.
		if s := schedulerRunner(store.DemandRunner{ID: got.ID, State: got.State, Ephemeral: got.Ephemeral, JobID: got.JobID}, nil, false); s.State != string(store.RunnerBusy) {
			t.Errorf("order %v: the decision takes the runner as %s", order, s.State)
		}
		zero := 0
		if _, err := r.c().applyReport(t.Context(), h, report(got, store.RunnerRemoved, &zero)); err != nil {
			t.Fatal(err)
		}
		if got, err = r.st.Runner(t.Context(), run.ID); err != nil || got.State != store.RunnerRemoved {
			t.Errorf("order %v: the runner ended as %s: %v", order, got.State, err)
		}
	}
}

func permutations(n int) (out [][]int) {
	var walk func(done []int, left []int)
	walk = func(done, left []int) {
		if len(left) == 0 {
			out = append(out, append([]int(nil), done...))
			return
		}
		for i := range left {
			rest := append(append([]int(nil), left[:i]...), left[i+1:]...)
			walk(append(done, left[i]), rest)
		}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	walk(nil, all)
	return out
}
