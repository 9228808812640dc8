package github

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func queue(r *rig, labels ...string) int64 {
	return r.QueueJob(JobSpec{Repository: repo, Name: "build", Labels: labels, Steps: []Step{{Name: "one", Run: "true"}, {Name: "two", Run: "true"}}})
}

// actions are the job's events as they were made.
func (r *rig) actions(id int64) string {
	var out []string
	for _, d := range r.Deliveries() {
		if d.JobID == id {
			out = append(out, d.Action)
		}
	}
	return strings.Join(out, " ")
}

func TestAJobsLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	id := queue(r, "self-hosted", "zoomies")
	j := f.take()
	if j.ID != id || j.Repository != repo || len(j.Steps) != 2 {
		t.Errorf("the runner got %+v", j)
	}
	if rs := r.Runners(); !rs[0].Busy || rs[0].JobID != id {
		t.Errorf("while running: %+v", rs)
	}
	f.job(id, "logs", "hello\n", nil)
	f.job(id, "steps", map[string]any{"number": 1, "status": "in_progress"}, nil)
	f.job(id, "steps", map[string]any{"number": 1, "status": "completed", "conclusion": "success"}, nil)
	if status := f.job(id, "steps", map[string]any{"number": 3, "status": "completed"}, nil); status != 400 {
		t.Errorf("a step that is not there answers %d", status)
	}
	if status := f.job(id, "finish", map[string]string{"result": "Great"}, nil); status != 400 {
		t.Errorf("an unknown result answers %d", status)
	}
	f.finish(id, "Succeeded")
	got := r.Job(id)
	if got.Status != StatusCompleted || got.Conclusion != ConclusionSuccess || got.Log != "hello\n" || got.RunnerName != "one" {
		t.Errorf("at the end: %+v", got)
	}
	for i, at := range []time.Time{got.QueuedAt, got.AssignedAt, got.StartedAt, got.CompletedAt} {
		if at.IsZero() || i > 0 && at.Before(got.QueuedAt) {
			t.Errorf("time %d is %s", i, at)
		}
	}
	if len(r.Runners()) != 0 || len(r.RunnerHistory()) != 1 {
		t.Error("an ephemeral registration outlived its job")
	}
	if status := f.job(id, "logs", "late", nil); status != 401 {
		t.Errorf("a word after the end answers %d", status)
	}
	if a := r.actions(id); a != "queued in_progress completed" {
		t.Errorf("events %q", a)
	}
	r.settled()
}

// TestStateMachine drives jobs through every way a job can go and checks what webhooks say about it.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		waiting    bool
		script     func(r *rig, id int64)
		actions    string
		status     string
		conclusion string
	}{
		{"queued", false, func(*rig, int64) {}, "queued", StatusQueued, ""},
		{"cancelled in the queue", false, func(r *rig, id int64) { r.CancelJob(id); r.CancelJob(id) }, "queued completed", StatusCompleted, ConclusionCancelled},
		{"gated", true, func(*rig, int64) {}, "waiting", StatusWaiting, ""},
		{"gate opened", true, func(r *rig, id int64) { r.ReleaseJob(id); r.ReleaseJob(id) }, "waiting queued", StatusQueued, ""},
		{"cancelled behind its gate", true, func(r *rig, id int64) { r.CancelJob(id); r.ReleaseJob(id) }, "waiting completed", StatusCompleted, ConclusionCancelled},
		{"gated late", false, func(r *rig, id int64) { r.HoldJob(id); r.ReleaseJob(id) }, "queued waiting queued", StatusQueued, ""},
		{"run and failed", false, func(r *rig, id int64) {
			f := r.mint("/orgs/acme", "one", "zoomies").online()
			f.take()
			r.HoldJob(id) // too late: no effect
			f.finish(id, "Failed")
			r.CancelJob(id)
		}, "queued in_progress completed", StatusCompleted, ConclusionFailure},
		{"cancelled while it runs", false, func(r *rig, id int64) {
			f := r.mint("/orgs/acme", "one", "zoomies").online()
			f.take()
			r.CancelJob(id)
			if status, m := f.poll(context.Background()); status != 200 || m.Kind != messageCancel || m.Body.JobID != id {
				r.t.Errorf("poll answered %d %+v; want the cancellation", status, m)
			}
			f.finish(id, "Canceled")
		}, "queued in_progress completed", StatusCompleted, ConclusionCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.SetWebhookURL(r.sink.URL)
			id := r.QueueJob(JobSpec{Repository: repo, Labels: []string{"zoomies"}, Waiting: tt.waiting, Steps: []Step{{Run: "true"}}})
			tt.script(r, id)
			j := r.Job(id)
			if j.Status != tt.status || j.Conclusion != tt.conclusion {
				t.Errorf("ended as %s %s", j.Status, j.Conclusion)
			}
			if a := r.actions(id); a != tt.actions {
				t.Errorf("events %q, want %q", a, tt.actions)
			}
			for _, x := range r.settled() {
				if a := x.event.Action; a != "" && x.event.WorkflowJob.Status != a {
					t.Errorf("event %s says status %s", a, x.event.WorkflowJob.Status)
				}
			}
		})
	}
}

// TestLabels: a runner needs all of a job's labels, whatever their case (field reports A13, A14).
func TestLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{PollHold: 50 * time.Millisecond})
	r.mint("/orgs/acme", "only-a", "a").online()
	tests := []struct {
		labels []string
		takes  bool
	}{
		{[]string{"A", "LINUX", "Self-Hosted", "x64"}, true},
		{[]string{"a", "b"}, false},
		{[]string{"ubuntu-latest"}, false},
		{[]string{"windows", "a"}, false},
		{[]string{}, false},
	}
	r.Server.mu.Lock()
	defer r.Server.mu.Unlock()
	runner := r.runnersByID()[0]
	for _, tt := range tests {
		j := &job{labels: tt.labels, run: &run{repo: r.repository(repo)}}
		if runner.serves(j) != tt.takes {
			t.Errorf("job %q on a runner with %q: want %v", tt.labels, runner.labels, tt.takes)
		}
	}
}

// TestRunnersAreFungible: a sibling's job, or one of a repository that the App does not have, takes a
// runner that was made for another job (field report A9).
func TestRunnersAreFungible(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	stranger := r.QueueJob(JobSpec{Repository: "acme/not-ours", Labels: []string{"zoomies"}})
	ours := queue(r, "zoomies")
	f := r.mint("/orgs/acme", "made-for-ours", "zoomies").online()
	if j := f.take(); j.ID != stranger {
		t.Errorf("the runner got job %d; the older job %d was waiting", j.ID, stranger)
	}
	if j := r.Job(ours); j.Status != StatusQueued {
		t.Errorf("ours is %s", j.Status)
	}
	f.finish(stranger, "Succeeded")
	if a := r.actions(stranger); a != "" {
		t.Errorf("the App heard %q of a repository that it does not have", a)
	}
	r.do("GET", "/repos/acme/not-ours/actions/runs", "").want(404)
}

func TestRepositoryRunnersTakeOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{PollHold: 20 * time.Millisecond})
	r.AddRepository(r.inst, "acme/other")
	r.QueueJob(JobSpec{Repository: "acme/other", Labels: []string{"zoomies"}})
	f := r.mint("/repos/acme/app", "one", "zoomies").online()
	if status, m := f.poll(t.Context()); status != 202 {
		t.Errorf("poll answered %d %+v; want nothing", status, m)
	}
	mine := queue(r, "zoomies")
	if j := f.take(); j.ID != mine {
		t.Errorf("took %d", j.ID)
	}
}

// TestCancelBeforeTheRunnerTookIt: the runner that was offered the job is free again (field report A8).
func TestCancelBeforeTheRunnerTookIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	first := queue(r, "zoomies")
	if status, m := f.poll(t.Context()); status != 200 || m.Body.JobID != first {
		t.Fatalf("poll answered %d %+v", status, m)
	}
	if rs := r.Runners(); !rs[0].Busy {
		t.Error("a runner that was given a job is not busy")
	}
	r.CancelJob(first)
	if status := f.job(first, "acquire", nil, nil); status != 404 {
		t.Errorf("acquiring a cancelled job answered %d", status)
	}
	if rs := r.Runners(); rs[0].Busy {
		t.Error("the runner is still busy")
	}
	second := queue(r, "zoomies")
	if j := f.take(); j.ID != second {
		t.Errorf("took %d", j.ID)
	}
}

func TestAnOfferIsRepeatedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	id := queue(r, "zoomies")
	for range 2 { // the first answer may be lost
		if status, m := f.poll(t.Context()); status != 200 || m.Body.JobID != id {
			t.Fatalf("poll answered %d %+v", status, m)
		}
	}
	f.close() // and its runner may die
	g := r.mint("/orgs/acme", "two", "zoomies").online()
	if j := g.take(); j.ID != id {
		t.Errorf("took %d", j.ID)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	if status := f.open(); status != 409 { // field report A17
		t.Errorf("a second session answered %d", status)
	}
	if status := f.close(); status != 204 {
		t.Errorf("closing answered %d", status)
	}
	if rs := r.Runners(); rs[0].Online || rs[0].OnlineAt.IsZero() {
		t.Errorf("after its session: %+v", rs[0])
	}
	if status, _ := f.poll(t.Context()); status != 410 {
		t.Errorf("polling a session that ended answered %d", status)
	}
	r.RemoveRunner(f.id)
	if status := f.open(); status != 401 {
		t.Errorf("a session of a registration that is gone answered %d", status)
	}
	f.token = "wrong"
	if status := f.open(); status != 401 {
		t.Errorf("a wrong credential answered %d", status)
	}
}

// TestBusyRunnersStay: neither the API nor GitHub itself removes a runner that has a job.
func TestBusyRunnersStay(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	queue(r, "zoomies")
	f.take()
	if r.RemoveRunner(f.id) {
		t.Error("a busy runner was removed")
	}
}

func TestDeprecatedRunnersAreRefused(t *testing.T) { // field report A25
	t.Parallel()
	r := newRig(t, Options{})
	f := r.mint("/orgs/acme", "one", "zoomies")
	r.DeprecateRunners(true)
	if status := f.open(); status != 403 {
		t.Errorf("a session answered %d", status)
	}
	r.DeprecateRunners(false)
	f.online()
}

// TestRerunRepeatsCompleted: re-running what failed makes GitHub say `completed` again for what did not (field report A4).
func TestRerunRepeatsCompleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	good := queue(r, "zoomies")
	run := r.Job(good).RunID
	bad := r.QueueJob(JobSpec{RunID: run, Repository: repo, Name: "test", Labels: []string{"zoomies"}})
	results := map[int64]string{good: "Succeeded", bad: "Failed"}
	for _, name := range []string{"one", "two"} {
		j := r.mint("/orgs/acme", name, "zoomies").online()
		id := j.take().ID
		j.finish(id, results[id])
	}
	r.do("POST", "/repos/acme/app/actions/runs/"+itoa(run)+"/rerun-failed-jobs", "").want(201)
	if a := r.actions(good); a != "queued in_progress completed completed" {
		t.Errorf("the good job: %q", a)
	}
	again := r.Jobs()[2]
	if again.RunAttempt != 2 || again.Name != "test" || again.Status != StatusQueued || again.ID == bad {
		t.Errorf("the new job: %+v", again)
	}
	r.settled()
}

func TestWaitJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	id := queue(r, "zoomies")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.WaitJob(ctx, id, StatusCompleted); err == nil {
		t.Error("a wait that was given up has no error")
	}
	if _, err := r.WaitJob(t.Context(), 1, StatusQueued); err == nil {
		t.Error("a wait for no job has no error")
	}
	r.CancelJob(id)
	if _, err := r.WaitJob(t.Context(), id, StatusInProgress); err == nil {
		t.Error("a wait for what cannot come any more has no error")
	}
	if j := r.wait(id, StatusCompleted); j.Conclusion != ConclusionCancelled {
		t.Errorf("job is %+v", j)
	}
	if ids := []int64{r.Jobs()[0].ID}; !slices.Equal(ids, []int64{id}) {
		t.Errorf("jobs %v", ids)
	}
}

// TestManyJobsManyRunners: every job runs once, on a runner of its own, and nothing is left.
func TestManyJobsManyRunners(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Limits: Limits{PointsPerMinute: 1 << 30, Core: 1 << 30}})
	r.SetWebhookURL(r.sink.URL)
	const n = 60
	var wg sync.WaitGroup
	for i := range n {
		f := r.mint("/orgs/acme", fmt.Sprint("r", i), "zoomies").online()
		wg.Go(func() {
			j := f.take()
			f.finish(j.ID, "Succeeded")
		})
		id := queue(r, "zoomies")
		if i%3 == 0 {
			r.HoldJob(id)
			r.ReleaseJob(id)
		}
	}
	wg.Wait()
	runners := map[string]bool{}
	for _, j := range r.Jobs() {
		if j.Conclusion != ConclusionSuccess {
			t.Errorf("job %+v", j)
		}
		runners[j.RunnerName] = true
	}
	if len(runners) != n || len(r.Runners()) != 0 {
		t.Errorf("%d runners for %d jobs, %d left", len(runners), n, len(r.Runners()))
	}
	for _, h := range r.RunnerHistory() {
		if h.JobID == 0 {
			t.Errorf("%s ended without a job", h.Name)
		}
	}
	r.settled()
}
