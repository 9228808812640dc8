package controller

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// A1: more jobs than the pool may have runners, nothing sent twice. All run, never more than two at once, and nothing is left.
func TestMoreJobsThanRunnersAllRun(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, func(p *store.Pool) { p.Max = 2 })
	var ids []int64
	for range 5 {
		ids = append(ids, r.job("ok"))
	}
	for _, id := range ids {
		r.completed(id, "success")
	}
	r.nothingLeft()
	if n := r.hosts[0].engine.Peak(); n > 2 {
		t.Errorf("%d starts at once in a pool of two", n)
	}
	for _, row := range r.runners() {
		if row.State != store.RunnerRemoved {
			t.Errorf("runner %s ended as %s: %s", row.Name, row.State, row.Message)
		}
	}
}

// A2: the one delivery that says "queued" is lost. The poller finds the job.
func TestLostDeliveryIsFoundByThePoller(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{settings: func(s *Settings) { s.PollFallback, s.PollInterval = true, time.Minute }}, nil)
	first := r.job("ok") // whose deliveries arrive: webhooks work
	r.completed(first, "success")
	r.gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Drop })
	lost := r.job("ok")
	if _, err := r.st.JobByGitHubID(t.Context(), p.InstallationID, lost); err == nil {
		t.Fatal("the job is known although its delivery was lost")
	}
	r.gh.SetDeliveryPolicy(nil)
	r.clock.advance(time.Minute)
	r.c().poll.Set()
	r.completed(lost, "success")
	r.nothingLeft()
}

// A4: GitHub repeats old "completed" deliveries. They change nothing, and a new job still gets its runner.
func TestRepeatedCompletedDeliveriesChangeNothing(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	old := r.job("ok")
	r.completed(old, "success")
	r.nothingLeft()
	r.until("the end of the job is known", func() bool { return r.jobRow(p.InstallationID, old).State == store.JobCompleted })
	before := r.jobRow(p.InstallationID, old)
	var again []string
	for _, d := range r.gh.Deliveries() {
		if d.JobID == old && d.Action == "completed" {
			again = append(again, d.ID)
		}
	}
	next := r.job("wait")
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { r.deliver(p.InstallationID, completedPayload(r, old), "") }) // a new GUID each
		wg.Go(func() { r.gh.Redeliver(again[0]) })                                  // the old one
	}
	wg.Wait()
	r.waitJob(next, simgithub.StatusInProgress, "")
	r.finishJob(next)
	r.completed(next, "success")
	r.nothingLeft()
	after := r.jobRow(p.InstallationID, old)
	before.CheckedAt, after.CheckedAt = time.Time{}, time.Time{}
	if after.Conclusion != before.Conclusion || after.State != before.State || !after.CompletedAt.Equal(before.CompletedAt) {
		t.Errorf("the old job changed from %+v to %+v", before, after)
	}
	if n := len(r.runners()); n != 2 {
		t.Errorf("%d runners for two jobs", n)
	}
}

// completedPayload is the body of a job's "completed" delivery.
func completedPayload(r *rig, id int64) []byte {
	for _, d := range r.gh.Deliveries() {
		if d.JobID == id && d.Action == "completed" {
			return bytes.Clone(d.Body)
		}
	}
	r.t.Fatalf("job %d has no completed delivery", id)
	return nil
}

// A5: the same delivery twice, and the same job through the App's, the organisation's and the repository's hooks. One row, one runner.
func TestOneJobThroughManyHooksIsOneRunner(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	secret := r.gh.App().WebhookSecret
	r.gh.AddHook("organization", r.web.URL+"/webhooks/github", secret)
	r.gh.AddHook("repository", r.web.URL+"/webhooks/github", secret)
	r.gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Duplicate })
	id := r.job("ok")
	r.completed(id, "success")
	if err := r.gh.WaitDeliveries(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft()
	jobs, err := r.st.Jobs(t.Context(), store.JobFilter{Installation: p.InstallationID})
	if err != nil {
		t.Fatal(err)
	}
	if rows := r.runners(); len(jobs) != 1 || len(rows) != 1 {
		t.Errorf("%d job rows and %d runners for one job", len(jobs), len(rows))
	}
}

// A11: webhook and poller both tell of the same jobs. Nobody counts them twice.
func TestWebhookAndPollerAreOneDemand(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{settings: func(s *Settings) { s.PollFallback, s.PollInterval = true, time.Millisecond }}, nil)
	var ids []int64
	for range 4 {
		ids = append(ids, r.job("wait"))
		r.c().poll.Set()
	}
	in, err := r.st.Installation(t.Context(), p.InstallationID)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.c().pollInstallation(t.Context(), in, &pollState{})
	}
	for _, id := range ids {
		r.waitJob(id, simgithub.StatusInProgress, "")
		r.finishJob(id)
		r.completed(id, "success")
	}
	r.nothingLeft()
	// One more may have been begun for a job whose runner ended before anybody said that it ran it: these take a millisecond.
	if n := len(r.runners()); n < len(ids) || n > len(ids)+1 {
		t.Errorf("%d runners for %d jobs that were told of twice", n, len(ids))
	}
}

// A12: no fixed delay stands between a queued job and its create task, even with no idle runner. (Bounds far above what it takes.)
func TestQueuedJobGetsItsTaskAtOnce(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	var waits []time.Duration
	for range 10 {
		id := r.job("ok")
		r.completed(id, "success")
		r.nothingLeft()
	}
	for _, row := range r.runners() {
		j, err := r.st.Job(t.Context(), row.DemandJobID)
		if err != nil {
			t.Fatal(err)
		}
		ts, err := r.st.Tasks(t.Context(), row.ID)
		if err != nil || len(ts) == 0 {
			t.Fatalf("runner %s has no task: %v", row.ID, err)
		}
		waits = append(waits, ts[0].CreatedAt.Sub(j.SeenAt))
	}
	slices.Sort(waits)
	if p95 := waits[len(waits)*95/100]; p95 > time.Second {
		t.Errorf("the slowest of ten jobs waited %s for its task: %v", p95, waits)
	}
}

// A13, A14, A16: labels match whatever their case, a pool needs all of them, and jobs for GitHub's own machines are nobody's.
func TestLabelsDecideWhichPoolServes(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	in := r.install("acme", "acme/widgets")
	a := r.pool(in, func(p *store.Pool) { p.Name, p.OS, p.Labels = "a", "linux", []string{"Linux", "A"} })
	ab := r.pool(in, func(p *store.Pool) { p.Name, p.OS, p.Labels = "ab", "linux", []string{"a", "b"} })
	r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
	r.host("host-1", 10)
	queue := func(labels ...string) int64 {
		return r.gh.QueueJob(simgithub.JobSpec{Repository: "acme/widgets", Labels: labels})
	}
	hosted, windows, unknown := queue("ubuntu-latest"), queue("self-hosted", "windows", "a"), queue("self-hosted", "c")
	upper := queue("LINUX", "self-hosted", "a")
	r.completed(upper, "success")
	both := queue("self-hosted", "B", "A")
	r.completed(both, "success")
	r.nothingLeft()
	want := map[int64]string{upper: a.ID, both: ab.ID}
	rows := r.runners()
	if len(rows) != len(want) {
		t.Errorf("%d runners for two jobs that a pool serves: %+v", len(rows), rows)
	}
	for _, row := range rows {
		if row.JobID == "" {
			continue // withdrawn: the news of its job came late, and it was one too many
		}
		j, err := r.st.Job(t.Context(), row.JobID)
		if err != nil || want[j.GitHubID] != row.PoolID {
			t.Errorf("job %v ran in pool %s: %v", j.Labels, row.PoolID, err)
		}
	}
	for _, id := range []int64{hosted, windows, unknown} {
		if j := r.gh.Job(id); j.Status != simgithub.StatusQueued {
			t.Errorf("job %v is %s", j.Labels, j.Status)
		}
	}
}

// Two installations: each one's jobs run in its own pools.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	other := r.install("globex", "globex/gears")
	r.pool(other, nil)
	id := r.job("ok")
	id2 := r.gh.QueueJob(simgithub.JobSpec{Repository: "globex/gears", Labels: []string{"zoomies"}})
	r.completed(id, "success")
	r.completed(id2, "success")
	r.nothingLeft()
	for _, row := range r.runners() {
		if row.JobID == "" {
			continue // withdrawn: the news of its job came late, and it was one too many
		}
		j, err := r.st.Job(t.Context(), row.JobID)
		if err != nil || j.InstallationID != row.InstallationID {
			t.Errorf("a runner of installation %s ran a job of %s: %v", row.InstallationID, j.InstallationID, err)
		}
	}
}
