package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runsOf scripts the runs of a repository by status; every status not named has none.
func (s *scripted) runsOf(repository string, byStatus map[string][]int) {
	s.on("GET /repos/"+repository+"/actions/runs", func(w http.ResponseWriter, r *http.Request) {
		runs := []any{}
		for _, id := range byStatus[r.URL.Query().Get("status")] {
			runs = append(runs, map[string]any{"id": id, "name": "CI", "status": r.URL.Query().Get("status")})
		}
		reply(w, 200, map[string]any{"total_count": len(runs), "workflow_runs": runs})
	})
}

func (s *scripted) jobsOf(repository string, run int, jobs ...map[string]any) {
	s.on(fmt.Sprintf("GET /repos/%s/actions/runs/%d/jobs", repository, run), func(w http.ResponseWriter, r *http.Request) {
		if f := r.URL.Query().Get("filter"); f != "latest" {
			s.t.Errorf("filter is %q", f)
		}
		reply(w, 200, map[string]any{"total_count": len(jobs), "jobs": jobs})
	})
}

func (s *scripted) repositories(names ...string) {
	all := []any{map[string]any{"full_name": "acme/archive", "archived": true}, map[string]any{"full_name": "acme/off", "disabled": true}}
	for _, n := range names {
		all = append(all, map[string]any{"full_name": n})
	}
	s.on("GET /installation/repositories", answers(200, map[string]any{"total_count": len(all), "repositories": all}))
}

func ids(jobs []JobState) (all []int64) {
	for _, j := range jobs {
		all = append(all, j.GitHubID)
	}
	return all
}

func TestActiveJobsFindsEveryJobThatIsNotOver(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /installation/repositories", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "1" {
			answers(200, map[string]any{"total_count": 2, "repositories": []any{map[string]any{"full_name": "acme/one"}}}, nextLink(s, r, 2))(w, r)
			return
		}
		reply(w, 200, map[string]any{"total_count": 2, "repositories": []any{map[string]any{"full_name": "acme/two"}, map[string]any{"full_name": "acme/one"}}})
	})
	s.runsOf("acme/one", map[string][]int{"queued": {1}, "in_progress": {2, 1}}) // run 1 moves on between the lists
	s.runsOf("acme/two", map[string][]int{"waiting": {3}})
	s.jobsOf("acme/one", 1, map[string]any{
		"id": 11, "run_id": 1, "run_attempt": 2, "workflow_name": "Build", "name": "test (1)", "labels": []string{"zoomies", "Linux"}, "status": "queued",
		"html_url": "https://github.com/acme/one/actions/runs/1/job/11", "created_at": "2026-11-02T10:00:00Z", "started_at": "2026-11-02T10:00:00Z", "runner_id": 0, "runner_name": "",
	})
	s.jobsOf("acme/one", 2,
		map[string]any{"id": 21, "run_id": 2, "status": "completed", "conclusion": "success"},
		map[string]any{"id": 22, "run_id": 2, "status": "in_progress", "runner_id": 9, "runner_name": "zoomies-9", "started_at": "2026-11-02T10:01:00Z"},
		map[string]any{"id": 23, "run_id": 2, "status": "pending"},
		map[string]any{"id": 24, "run_id": 2, "status": "some new word"},
	)
	s.jobsOf("acme/two", 3, map[string]any{"id": 31, "run_id": 3, "status": "waiting"})
	got, err := s.client().ActiveJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []JobState{
		{
			GitHubID: 11, RunID: 1, RunAttempt: 2, Repository: "acme/one", Workflow: "Build", Name: "test (1)", Labels: []string{"zoomies", "Linux"}, Status: "queued",
			HTMLURL: "https://github.com/acme/one/actions/runs/1/job/11", CreatedAt: time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC),
		},
		{GitHubID: 22, RunID: 2, Repository: "acme/one", Workflow: "CI", Status: "in_progress", RunnerID: 9, RunnerName: "zoomies-9", StartedAt: time.Date(2026, 11, 2, 10, 1, 0, 0, time.UTC)},
		{GitHubID: 23, RunID: 2, Repository: "acme/one", Workflow: "CI", Status: "waiting"},
		{GitHubID: 31, RunID: 3, Repository: "acme/two", Workflow: "CI", Status: "waiting"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := strings.Count(strings.Join(s.calls(), "\n"), "/runs/1/jobs"); n != 1 {
		t.Errorf("run 1 was looked into %d times", n)
	}
}

func TestArchivedRepositoriesAreNotPolled(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.repositories()
	if got, err := s.client().ActiveJobs(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if calls := s.calls(); len(calls) != 1 {
		t.Errorf("asked %v", calls)
	}
}

func TestBrokenRepositoryDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.repositories("acme/broken", "acme/gone", "acme/well")
	s.on("GET /repos/acme/broken/actions/runs", answers(502, nil))
	s.runsOf("acme/well", map[string][]int{"queued": {1}})
	s.jobsOf("acme/well", 1, map[string]any{"id": 11, "run_id": 1, "status": "queued"})
	got, err := s.client().ActiveJobs(t.Context())
	if !slices.Equal(ids(got), []int64{11}) || err == nil || !strings.Contains(err.Error(), "acme/broken") || strings.Contains(err.Error(), "acme/gone") {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestSweepGivesUpWhenEverythingFails(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("acme/r%d", i))
		s.on("GET /repos/"+names[i]+"/actions/runs", answers(500, nil))
	}
	s.repositories(names...)
	if _, err := s.client().ActiveJobs(t.Context()); err == nil || strings.Count(err.Error(), "cannot") > sweepPatience {
		t.Errorf("got %v", err)
	}
	if n := len(s.calls()); n > 1+sweepPatience+sweepWidth {
		t.Errorf("%d calls at a GitHub that is down", n)
	}
}

// A21: the sweep stops at the first refusal, since every further call would be refused too.
func TestSweepStopsAtTheFirstRefusal(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("acme/r%d", i))
		s.on("GET /repos/"+names[i]+"/actions/runs", answers(403, nil, "X-RateLimit-Remaining: 0", fmt.Sprintf("X-RateLimit-Reset: %d", time.Now().Add(20*time.Minute).Unix())))
	}
	s.repositories(names...)
	_, err := s.client().ActiveJobs(t.Context())
	limit, ok := errors.AsType[*LimitError](err)
	if !ok || time.Until(limit.Until) < 15*time.Minute {
		t.Errorf("got %v", err)
	}
	if n := len(s.calls()); n > 1+2*sweepWidth {
		t.Errorf("%d calls", n)
	}
}

func TestUnchangedListsCostNoQuota(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	paid := 0
	tagged := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") == `W/"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			paid++
			w.Header().Set("ETag", `W/"1"`)
			h(w, r)
		}
	}
	s.repositories("acme/one")
	s.runsOf("acme/one", map[string][]int{"queued": {1}})
	s.jobsOf("acme/one", 1, map[string]any{"id": 11, "run_id": 1, "status": "queued"})
	for route, h := range s.routes {
		if strings.HasPrefix(route, "GET") {
			s.on(route, tagged(h))
		}
	}
	c := s.client()
	for range 3 {
		got, err := c.ActiveJobs(t.Context())
		if err != nil || !slices.Equal(ids(got), []int64{11}) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if paid != 5 { // repositories, three lists of runs, jobs
		t.Errorf("%d answers were paid for", paid)
	}
}

func TestETagsStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	c := newETags()
	for i := range 40 {
		c.put(&etagEntry{url: fmt.Sprint(i), body: make([]byte, etagMaxEntry)})
	}
	c.put(&etagEntry{url: "huge", body: make([]byte, etagMaxEntry+1)})
	c.put(&etagEntry{url: "39", body: make([]byte, 10)}) // replaced, not added
	if c.size > etagBudget || c.get("0") != nil || c.get("huge") != nil || c.get("38") == nil || len(c.get("39").body) != 10 {
		t.Errorf("%d bytes in %d entries", c.size, c.order.Len())
	}
	if c.order.Len() != len(c.byURL) {
		t.Error("the books disagree")
	}
}

func TestSpotJobsTakesRunsInProgressInTurns(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.repositories("acme/one")
	var running []int
	for i := range 50 {
		running = append(running, 100+i)
		s.jobsOf("acme/one", 100+i, map[string]any{"id": 1000 + i, "run_id": 100 + i, "status": "queued"})
	}
	s.runsOf("acme/one", map[string][]int{"queued": {1}, "in_progress": running})
	s.jobsOf("acme/one", 1, map[string]any{"id": 11, "run_id": 1, "status": "queued"})
	c := s.client()
	seen := map[int64]bool{}
	for sweep := range 3 { // 50 runs at 20 a sweep
		got, err := Sweep(t.Context(), c, PollSpot)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1+spotRuns || got[0].GitHubID != 11 {
			t.Fatalf("sweep %d found %v", sweep, ids(got))
		}
		for _, j := range got {
			seen[j.GitHubID] = true
		}
	}
	if len(seen) != 51 {
		t.Errorf("%d of 51 jobs were found in three sweeps", len(seen))
	}
}

func TestSweepDepths(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.repositories("acme/one")
	s.runsOf("acme/one", map[string][]int{"waiting": {1}})
	s.jobsOf("acme/one", 1, map[string]any{"id": 11, "run_id": 1, "status": "queued"})
	c := s.client()
	for depth, want := range map[PollDepth]int{PollNone: 0, PollSpot: 0, PollFull: 1} {
		if got, err := Sweep(t.Context(), c, depth); err != nil || len(got) != want {
			t.Errorf("%s: got %v, %v", depth, got, err)
		}
	}
	if got, err := Sweep(t.Context(), struct{ API }{c}, PollSpot); err != nil || len(got) != 1 { // one that knows no spot
		t.Errorf("got %v, %v", got, err)
	}
}

func TestJob(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /repos/acme/one/actions/jobs/11", answers(200, map[string]any{"id": 11, "run_id": 1, "status": "completed", "conclusion": "cancelled", "completed_at": "2026-11-02T10:01:00Z"}))
	s.on("GET /repos/acme/one/actions/jobs/12", answers(200, map[string]any{"id": 99, "status": "queued"}))
	c := s.client()
	got, err := c.Job(t.Context(), "acme/one", 11)
	if err != nil || got.Status != "completed" || got.Conclusion != "cancelled" || got.CompletedAt.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Job(t.Context(), "acme/one", 12); err == nil {
		t.Error("an answer about another job was believed")
	}
	if _, err := c.Job(t.Context(), "acme/one", 13); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Job(t.Context(), "../one", 13); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
