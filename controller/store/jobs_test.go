package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// lines splits a table in a string into its words.
func lines(table string) (rows [][]string) {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 0 {
			rows = append(rows, words)
		}
	}
	return rows
}

func TestAJobNeverMovesBackwards(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	// from, what is heard, what it is then
	const table = `
		waiting     waiting     waiting
		waiting     queued      queued
		waiting     in_progress in_progress
		waiting     completed   completed
		queued      waiting     waiting
		queued      queued      queued
		queued      in_progress in_progress
		queued      completed   completed
		in_progress waiting     in_progress
		in_progress queued      in_progress
		in_progress in_progress in_progress
		in_progress completed   completed
		completed   waiting     completed
		completed   queued      completed
		completed   in_progress completed
		completed   completed   completed`
	for i, row := range lines(table) {
		for _, asked := range []bool{false, true} {
			id := int64(2*i + 1)
			if asked {
				id++
			}
			u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: id, State: store.JobState(row[0])}
			first, err := s.UpsertJob(t.Context(), u)
			if err != nil || !first.Changed || first.Previous != "" {
				t.Fatal(first, err)
			}
			u.State, u.Authoritative = store.JobState(row[1]), asked
			c, err := s.UpsertJob(t.Context(), u)
			if err != nil || string(c.Job.State) != row[2] || string(c.Previous) != row[0] || c.Changed != (row[0] != row[2]) || c.Job.ID != first.Job.ID {
				t.Errorf("%v: got %+v, %v", row, c, err)
			}
		}
	}
}

func TestFieldsFillInAndAreNeverBlanked(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	seen := c.now()
	heard := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 5, State: store.JobQueued}
	bare, err := s.UpsertJob(t.Context(), heard)
	if err != nil || !bare.Job.QueuedAt.Equal(seen) {
		t.Fatal(bare, err)
	}
	full := heard
	full.RunID, full.RunAttempt, full.Repository, full.Workflow, full.Name = 1, 2, "acme/site", "ci", "build"
	full.Labels, full.HTMLURL, full.QueuedAt = []string{"zoomies", "Linux"}, "https://example/job", seen.Add(-time.Minute)
	full.StartedAt = seen.Add(-time.Minute) // GitHub says it of queued jobs too; it means nothing
	c.step(time.Second)
	if _, err := s.UpsertJob(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	running := heard
	running.State, running.RunnerName, running.StartedAt = store.JobInProgress, "zoomies-a", c.step(time.Second)
	if _, err := s.UpsertJob(t.Context(), running); err != nil {
		t.Fatal(err)
	}
	done := heard
	done.State, done.Conclusion, done.CompletedAt = store.JobCompleted, "success", c.step(time.Second)
	if _, err := s.UpsertJob(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	again := done
	again.Conclusion, again.CompletedAt, again.RunnerName = "failure", c.step(time.Hour), "zoomies-b"
	if _, err := s.UpsertJob(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	c.step(time.Hour)
	late, err := s.UpsertJob(t.Context(), heard)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.JobByGitHubID(t.Context(), f.Installation.ID, 5)
	if err != nil || !cmp.Equal(got, late.Job) {
		t.Fatal(err)
	}
	want := store.Job{
		ID: bare.Job.ID, InstallationID: f.Installation.ID, GitHubID: 5, RunID: 1, RunAttempt: 2, Repository: "acme/site",
		Workflow: "ci", Name: "build", Labels: []string{"zoomies", "Linux"}, State: store.JobCompleted, Conclusion: "success",
		RunnerName: "zoomies-a", HTMLURL: "https://example/job", QueuedAt: seen.Add(-time.Minute), SeenAt: seen,
		StartedAt: running.StartedAt, CompletedAt: done.CompletedAt,
		CheckedAt: again.CompletedAt, // the late "queued" confirmed nothing
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An organisation that two Apps serve tells of each job twice; two rows would be two runners.
func TestAJobThroughTwoAppsIsOneRow(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	first := storetest.Seed(t, s).Installation
	install := func(name, url string, id int64) store.Installation {
		t.Helper()
		in, err := s.CreateInstallation(t.Context(), store.Installation{Name: name, BaseURL: url, InstallationID: id, Account: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	second, elsewhere := install("acme again", "", 71), install("acme at home", "https://github.acme.test/api/v3", 72)
	say := func(in store.Installation, state store.JobState) store.JobChange {
		t.Helper()
		c, err := s.UpsertJob(t.Context(), store.JobUpdate{InstallationID: in.ID, GitHubID: 5, State: state, RunnerName: "zoomies-a"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	heard := say(first, store.JobQueued)
	if again := say(second, store.JobQueued); again.Changed || again.Job.ID != heard.Job.ID || again.Job.InstallationID != first.ID {
		t.Errorf("through the other App: %+v", again)
	}
	if moved := say(second, store.JobInProgress); !moved.Changed || moved.Job.ID != heard.Job.ID {
		t.Errorf("moved through the other App: %+v", moved)
	}
	if other := say(elsewhere, store.JobQueued); !other.Changed || other.Previous != "" || other.Job.ID == heard.Job.ID {
		t.Errorf("another GitHub's job of that number: %+v", other)
	}
	for in, want := range map[string]string{first.ID: first.ID, second.ID: first.ID, elsewhere.ID: elsewhere.ID} {
		if j, err := s.JobByGitHubID(t.Context(), in, 5); err != nil || j.InstallationID != want {
			t.Errorf("%s: found %+v, %v", in, j, err)
		}
	}
	if all, err := s.Jobs(t.Context(), store.JobFilter{}); err != nil || len(all) != 2 {
		t.Errorf("%d rows, %v", len(all), err)
	}
	if _, err := s.JobByGitHubID(t.Context(), "ins_none", 5); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a job of no installation: %v", err)
	}
}

// An App that is installed and has no pool must not starve the jobs of one that has.
func TestAJobIsLeftToTheInstallationThatHasPools(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	idle, err := s.CreateInstallation(t.Context(), store.Installation{Name: "left over", InstallationID: 71, Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.Seed(t, s)
	say := func(in store.Installation, job int64, state store.JobState) store.Job {
		t.Helper()
		c, err := s.UpsertJob(t.Context(), store.JobUpdate{InstallationID: in.ID, GitHubID: job, State: state})
		if err != nil {
			t.Fatal(err)
		}
		return c.Job
	}
	for i, in := range []store.Installation{idle, f.Installation, idle} {
		want := f.Installation
		if i == 0 {
			want = idle
		}
		if j := say(in, 1, store.JobQueued); j.InstallationID != want.ID {
			t.Errorf("told for the %d. time it is of %s, want %s", i+1, j.InstallationID, want.ID)
		}
	}
	say(idle, 2, store.JobInProgress)
	if j := say(f.Installation, 2, store.JobInProgress); j.InstallationID != idle.ID {
		t.Error("a job that runs was passed on")
	}
}

// GitHub's clock may be ahead of ours: its word counts all the same.
func TestGitHubsTimeOfQueueingReplacesOurOwn(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued}
	for _, said := range []time.Time{{}, c.now().Add(2 * time.Second), {}} {
		u.QueuedAt = said
		if _, err := s.UpsertJob(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := s.JobByGitHubID(t.Context(), f.Installation.ID, 1); err != nil || !j.QueuedAt.Equal(c.now().Add(2*time.Second)) || !j.SeenAt.Equal(c.now()) {
		t.Errorf("queued %v, seen %v (%v)", j.QueuedAt, j.SeenAt, err)
	}
}

// All orders and repetitions of a job's deliveries end in the same row (field report A4 among them).
func TestAnyOrderOfDeliveriesEndsInTheSameRow(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	at := c.now().Add(-time.Hour)
	var job int64
	rapid.Check(t, func(t *rapid.T) {
		base := store.JobUpdate{
			InstallationID: f.Installation.ID, RunID: 9, RunAttempt: 1, Repository: "acme/site", Workflow: "ci",
			Name: "build", Labels: []string{"zoomies"}, HTMLURL: "https://example/job", QueuedAt: at,
		}
		say := func(state store.JobState, change func(*store.JobUpdate)) store.JobUpdate {
			u := base
			u.State = state
			if change != nil {
				change(&u)
			}
			return u
		}
		run := func(u *store.JobUpdate) { u.RunnerName, u.StartedAt = "zoomies-a", at.Add(time.Minute) }
		all := []store.JobUpdate{
			say(store.JobQueued, func(u *store.JobUpdate) { u.StartedAt = at }),
			say(store.JobWaiting, nil),
			say(store.JobQueued, func(u *store.JobUpdate) { u.Labels, u.Workflow = nil, "" }), // a poll says less
			say(store.JobInProgress, run),
			say(store.JobInProgress, func(u *store.JobUpdate) { run(u); u.QueuedAt = time.Time{} }),
			say(store.JobCompleted, func(u *store.JobUpdate) {
				run(u)
				u.Conclusion, u.CompletedAt = "success", at.Add(time.Hour)
			}),
		}
		completed := len(all) - 1
		order := rapid.SliceOfN(rapid.IntRange(0, completed), 0, 12).Draw(t, "order")
		order = append(order, completed)
		order = rapid.Permutation(order).Draw(t, "shuffled")
		play := func(order []int) store.Job {
			job++
			for _, i := range order {
				c.step(time.Second)
				u := all[i]
				u.GitHubID = job
				if _, err := s.UpsertJob(t.Context(), u); err != nil {
					t.Fatal(err)
				}
			}
			j, err := s.JobByGitHubID(t.Context(), f.Installation.ID, job)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		want := play([]int{0, 3, 5})
		got := play(order)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Job{}, "ID", "GitHubID", "SeenAt", "CheckedAt")); diff != "" {
			t.Fatalf("order %v (-want +got):\n%s", order, diff)
		}
	})
}

// A4: GitHub sends "completed" of old jobs again when one is re-run; none of them may count.
func TestRepeatedCompletionsChangeNothing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	for id := range int64(5) {
		u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: id + 1, State: store.JobCompleted, Conclusion: "failure"}
		for i := range 3 {
			c, err := s.UpsertJob(t.Context(), u)
			if err != nil || c.Changed != (i == 0) {
				t.Fatal(c, err)
			}
		}
	}
	c, err := s.UpsertJob(t.Context(), store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 99, State: store.JobQueued})
	if err != nil || !c.Changed {
		t.Fatal(c, err)
	}
	queued, err := s.Jobs(t.Context(), store.JobFilter{States: []store.JobState{store.JobQueued}})
	if err != nil || len(queued) != 1 {
		t.Errorf("%d jobs are queued, want 1 (%v)", len(queued), err)
	}
}

func TestJobsAreFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	base := c.now()
	for _, j := range []struct {
		id     int64
		state  store.JobState
		queued time.Duration
	}{{4, store.JobQueued, 2}, {3, store.JobQueued, 1}, {2, store.JobInProgress, 1}, {1, store.JobCompleted, 0}} {
		c.step(time.Second)
		u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: j.id, State: j.state, QueuedAt: base.Add(-time.Hour + j.queued*time.Second)}
		if _, err := s.UpsertJob(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		f    store.JobFilter
		want []int64
	}{
		"all":            {store.JobFilter{}, []int64{1, 2, 3, 4}},
		"queued":         {store.JobFilter{States: []store.JobState{store.JobQueued}}, []int64{3, 4}},
		"unfinished":     {store.JobFilter{States: []store.JobState{store.JobQueued, store.JobInProgress}}, []int64{2, 3, 4}},
		"mixed":          {store.JobFilter{States: []store.JobState{store.JobQueued, store.JobCompleted}}, []int64{1, 3, 4}},
		"limit":          {store.JobFilter{Limit: 2}, []int64{1, 2}},
		"checked before": {store.JobFilter{CheckedBefore: base.Add(3 * time.Second)}, []int64{3, 4}},
		"installation":   {store.JobFilter{Installation: "ins_other"}, nil},
	} {
		list, err := s.Jobs(t.Context(), test.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, j := range list {
			got = append(got, j.GitHubID)
		}
		if !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	all, err := s.Jobs(t.Context(), store.JobFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetJobFleetFault(t.Context(), all[0].ID, "the host was lost"); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Job(t.Context(), all[0].ID); err != nil || j.FleetFault != "the host was lost" {
		t.Error(j, err)
	}
}
