package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// A page is read where it begins, not sorted out of the whole table.
func TestPagesAreReadThroughAnIndex(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	at := After{time.UnixMicro(5), "x"}
	within := []*Within{nil, {Installations: []string{"a"}, Pools: []string{"b"}}}
	for name, page := range map[string]interface{ query() (string, []any) }{
		"jobs":            JobPage{Limit: 100},
		"more jobs":       JobPage{Limit: 100, After: at, Repository: "a/b", Conclusion: "failure", Within: within, Pool: "p"},
		"runners":         RunnerPage{Limit: 100},
		"more runners":    RunnerPage{Limit: 100, After: at, Host: "h", Within: within},
		"live runners":    RunnerPage{Limit: 100, After: at, Live: true},
		"made for a job":  RunnerPage{Limit: 1, Live: true, Demand: "j"},
		"failed runners":  RunnerPage{Limit: 100, After: at, States: []RunnerState{RunnerFailed}},
		"queued jobs":     JobPage{Limit: 100, After: at, States: []JobState{JobQueued}},
		"nothing at all":  JobPage{Limit: 100, Within: []*Within{{}}},
		"runners of none": RunnerPage{Limit: 100, Within: []*Within{{}}},
	} {
		q, args := page.query()
		plan, err := s.Plan(t.Context(), q, args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, q)
		}
		for _, step := range plan {
			if strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "INDEX") && !strings.Contains(step, "CONSTANT") {
				t.Errorf("%s: %s\n%s", name, step, q)
			}
		}
	}
	for query, index := range map[string]string{selectPendingOf: "tasks_pending", selectLeasedOf: "tasks_leased"} {
		if plan, err := s.Plan(t.Context(), query, "x", "y"); err != nil || !strings.Contains(strings.Join(plan, " "), "INDEX "+index) {
			t.Errorf("%q %v\n%s", plan, err, query)
		}
	}
}

func TestPagesFollowOneAnother(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	ctx := t.Context()
	in, err := s.CreateInstallation(ctx, Installation{Name: "acme", Account: "acme", InstallationID: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.CreatePool(ctx, Pool{Name: "p", InstallationID: in.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateJoinToken(ctx, JoinToken{Hash: "h", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	h, _, err := s.JoinHost(ctx, "h", "host", "t", HostUpdate{})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]Runner, 7) // all of one moment: their IDs tell them apart
	for i := range rows {
		rows[i] = Runner{Name: fmt.Sprint("r", i), PoolID: p.ID, HostID: h.ID, InstallationID: in.ID}
	}
	if err := s.CreateRunners(ctx, rows); err != nil {
		t.Fatal(err)
	}
	var jobs []Job
	for i := range 5 {
		c, err := s.UpsertJob(ctx, JobUpdate{InstallationID: in.ID, GitHubID: int64(i + 1), State: JobQueued, Repository: "acme/App"})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, c.Job)
	}
	if _, _, err := s.AssignJob(ctx, jobs[2].ID, rows[0].ID); err != nil {
		t.Fatal(err)
	}

	seen := map[string]bool{}
	var last After
	for n := 0; ; n++ {
		page, err := s.RunnerPage(ctx, RunnerPage{After: last, Limit: 3})
		if err != nil || n > 3 {
			t.Fatal(n, err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if seen[r.ID] {
				t.Errorf("runner %s is on two pages", r.ID)
			}
			seen[r.ID] = true
			last = After{r.CreatedAt, r.ID}
		}
	}
	if len(seen) != len(rows) {
		t.Errorf("%d of %d runners", len(seen), len(rows))
	}

	for name, c := range map[string]struct {
		page JobPage
		want int
	}{
		"all":                   {JobPage{}, 5},
		"a page":                {JobPage{Limit: 2}, 2},
		"state":                 {JobPage{States: []JobState{JobCompleted}}, 0},
		"repository":            {JobPage{Repository: "ACME/app"}, 5},
		"pool":                  {JobPage{Pool: p.ID}, 1},
		"another pool":          {JobPage{Pool: "pool_none"}, 0},
		"whoever sees all":      {JobPage{Within: []*Within{nil}}, 5},
		"nothing":               {JobPage{Within: []*Within{{}}}, 0},
		"their installation":    {JobPage{Within: []*Within{{Installations: []string{in.ID}}}}, 5},
		"their pool":            {JobPage{Within: []*Within{{Pools: []string{p.ID}}}}, 1},
		"both":                  {JobPage{Within: []*Within{{Pools: []string{p.ID}, Installations: []string{in.ID}}}}, 5},
		"of a token and a user": {JobPage{Within: []*Within{{Pools: []string{p.ID}}, {Installations: []string{"ins_none"}}}}, 0},
	} {
		list, err := s.JobPage(ctx, c.page)
		if err != nil || len(list) != c.want {
			t.Errorf("%s: %d jobs, want %d: %v", name, len(list), c.want, err)
		}
	}
	newest, err := s.JobPage(ctx, JobPage{Limit: 1})
	if err != nil || newest[0].ID != jobs[4].ID {
		t.Errorf("the newest job is %+v: %v", newest, err)
	}
	if n, err := s.JobCounts(ctx); err != nil || n[JobQueued] != 5 {
		t.Error(n, err)
	}
}

func TestTheQueueIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	ctx := t.Context()
	for range 2 {
		if p, err := s.QueuePause(ctx); err != nil || p.Paused() {
			t.Fatal(p, err)
		}
		want := QueuePause{Since: time.UnixMicro(1_000_000).UTC(), By: "ada", Reason: "why"}
		if err := s.SetQueuePause(ctx, want); err != nil {
			t.Fatal(err)
		}
		if p, err := s.QueuePause(ctx); err != nil || p != want {
			t.Fatal(p, err)
		}
		if err := s.SetQueuePause(ctx, QueuePause{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetSetting(ctx, queuePauseSetting, "{"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.QueuePause(ctx); err == nil || !strings.Contains(err.Error(), "resume the queue") {
		t.Error(err)
	}
}

func TestOutstandingTasksAreThoseNobodyAnswered(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	ctx := t.Context()
	if _, err := s.CreateJoinToken(ctx, JoinToken{Hash: "h", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	h, _, err := s.JoinHost(ctx, "h", "host", "t", HostUpdate{})
	if err != nil {
		t.Fatal(err)
	}
	kind := string(protocol.TaskPrewarm)
	for i := range 3 {
		if _, _, err := s.EnqueueTask(ctx, Task{HostID: h.ID, Kind: kind, Payload: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.LeaseTask(ctx, h.ID, func(string) time.Duration { return time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LeaseTask(ctx, h.ID, func(string) time.Duration { return time.Hour }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.FinishTask(ctx, h.ID, first.ID, 1, true, ""); err != nil {
		t.Fatal(err)
	}
	list, err := s.OutstandingTasks(ctx, h.ID, kind)
	if err != nil || len(list) != 2 || string(list[0].Payload) != "2" || list[1].State != TaskLeased {
		t.Errorf("%+v %v", list, err)
	}
	if list, err := s.OutstandingTasks(ctx, h.ID, "stop_runner"); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}
