package github

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// delivered is a payload of GitHub's shape, with changes at dotted paths; a nil change removes.
func delivered(changes map[string]any) []byte {
	p := map[string]any{
		"action": "in_progress",
		"workflow_job": map[string]any{
			"id": 14541957942, "run_id": 5373506832, "run_attempt": 1, "workflow_name": "Test", "head_branch": "main",
			"run_url": "https://api.github.com/repos/acme/app/actions/runs/5373506832", "node_id": "CR_kw", "head_sha": "eeeb91cc",
			"html_url": "https://github.com/acme/app/actions/runs/5373506832/job/14541957942",
			"status":   "in_progress", "conclusion": nil, "name": "unit (1.26)",
			"created_at": "2026-06-26T03:31:29Z", "started_at": "2026-06-26T03:31:36Z", "completed_at": nil,
			"steps":  []any{map[string]any{"name": "Set up job", "status": "in_progress", "number": 1, "started_at": "2026-06-26T03:31:35.000Z"}},
			"labels": []any{"self-hosted", "Zoomies"}, "runner_id": 6, "runner_name": "zoomies-6", "runner_group_id": 1, "runner_group_name": "Default",
		},
		"repository":   map[string]any{"id": 1, "full_name": "acme/app", "name": "app", "owner": map[string]any{"login": "acme", "id": 2}},
		"organization": map[string]any{"login": "acme", "id": 2},
		"sender":       map[string]any{"login": "someone"},
		"installation": map[string]any{"id": 3456996, "node_id": "MDIz"},
		"deployment":   nil,
	}
	for path, v := range changes {
		at := p
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			at = at[part].(map[string]any)
		}
		if v == nil {
			delete(at, parts[len(parts)-1])
		} else {
			at[parts[len(parts)-1]] = v
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return b
}

func TestParseWorkflowJob(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	got, err := ParseWorkflowJob(delivered(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := WorkflowJobEvent{
		Action: "in_progress", Owner: "acme", Organization: "acme", InstallationID: 3456996,
		Job: JobState{
			GitHubID: 14541957942, RunID: 5373506832, RunAttempt: 1, Repository: "acme/app", Workflow: "Test", Name: "unit (1.26)",
			Labels: []string{"self-hosted", "Zoomies"}, Status: "in_progress", RunnerID: 6, RunnerName: "zoomies-6",
			HTMLURL:   "https://github.com/acme/app/actions/runs/5373506832/job/14541957942",
			CreatedAt: at("2026-06-26T03:31:29Z"), StartedAt: at("2026-06-26T03:31:36Z"),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !got.OwnedBy("Acme") || got.OwnedBy("acme2") || got.OwnedBy("") {
		t.Error("the delivery belongs to acme, whatever its case")
	}
}

func TestParseWorkflowJobStates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ action, status, want string }{
		{"queued", "queued", "queued"},
		{"queued", "waiting", "waiting"},
		{"queued", "pending", "waiting"},
		{"queued", "in_progress", "queued"},
		{"waiting", "waiting", "waiting"},
		{"in_progress", "queued", "in_progress"},
		{"in_progress", "in_progress", "in_progress"},
		{"completed", "completed", "completed"},
		{"completed", "", "completed"},
	} {
		got, err := ParseWorkflowJob(delivered(map[string]any{
			"action": tc.action, "workflow_job.status": tc.status, "workflow_job.conclusion": "cancelled", "workflow_job.completed_at": "2026-06-26T03:40:00Z",
		}))
		j := got.Job
		if err != nil || j.Status != tc.want {
			t.Errorf("%+v: got %q, %v", tc, j.Status, err)
		}
		over, begun := tc.want == "completed", tc.want == "completed" || tc.want == "in_progress"
		if j.CompletedAt.IsZero() == over || (j.Conclusion == "") == over || j.StartedAt.IsZero() == begun || (j.RunnerName == "") == begun || (j.RunnerID == 0) == begun {
			t.Errorf("%+v: fields that are not true yet: %+v", tc, j)
		}
	}
	_, err := ParseWorkflowJob(delivered(map[string]any{"action": "renamed"}))
	if !errors.Is(err, ErrIgnored) || errors.Is(err, ErrMalformed) {
		t.Errorf("an unknown action: %v", err)
	}
}

func TestParseWorkflowJobIsLenientWhereNothingRestsOnIt(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string]map[string]any{
		"a plain repository webhook": {"installation": nil, "organization": nil},
		"an older server":            {"workflow_job.run_attempt": nil, "workflow_job.workflow_name": nil, "workflow_job.created_at": nil, "repository.owner": nil},
		"no labels":                  {"workflow_job.labels": nil},
		"a renamed owner":            {"repository.owner.login": "acme-inc"}, // GitHub's own examples have this
		"new fields":                 {"workflow_job.brand_new": map[string]any{"x": []any{1}}, "another": 1},
		"empty time":                 {"workflow_job.started_at": ""},
		"no link":                    {"workflow_job.html_url": "javascript:alert(1)"},
		"a long name":                {"workflow_job.name": strings.Repeat("ä", 3000)},
	} {
		got, err := ParseWorkflowJob(delivered(changes))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(got.Job.HTMLURL, "javascript") || len(got.Job.Name) > maxTextBytes {
			t.Errorf("%s: got %+v", name, got.Job)
		}
	}
}

func TestParseWorkflowJobRefusesWhatDecisionsRestOn(t *testing.T) {
	t.Parallel()
	many := make([]any, 101)
	for i := range many {
		many[i] = "x"
	}
	cases := map[string][]byte{
		"nothing":       nil,
		"null":          []byte("null"),
		"an array":      []byte("[]"),
		"not JSON":      []byte("action=queued"),
		"trailing data": append(delivered(nil), '{'),
	}
	for name, changes := range map[string]map[string]any{
		"no job":                {"workflow_job": nil},
		"no repository":         {"repository": nil},
		"no id":                 {"workflow_job.id": nil},
		"negative id":           {"workflow_job.id": -1},
		"id as text":            {"workflow_job.id": "14541957942"},
		"fractional id":         {"workflow_job.id": 1.5},
		"id too large":          {"workflow_job.id": json.Number("9223372036854775808")},
		"no run":                {"workflow_job.run_id": nil},
		"repository of 3 parts": {"repository.full_name": "a/b/c"},
		"repository with path":  {"repository.full_name": "../b"},
		"labels as text":        {"workflow_job.labels": "zoomies"},
		"too many labels":       {"workflow_job.labels": many},
		"a label too long":      {"workflow_job.labels": []any{strings.Repeat("x", 257)}},
		"time is rubbish":       {"workflow_job.created_at": "yesterday"},
	} {
		cases[name] = delivered(changes)
	}
	for name, body := range maps.All(cases) {
		if _, err := ParseWorkflowJob(body); !errors.Is(err, ErrMalformed) || errors.Is(err, ErrIgnored) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParseWorkflowJob(f *testing.F) {
	f.Add(delivered(nil))
	f.Add(delivered(map[string]any{"action": "queued", "workflow_job.status": "queued"}))
	f.Add(delivered(map[string]any{"action": "completed", "installation": nil}))
	f.Add([]byte(`{"action":"queued","workflow_job":{"id":1,"run_id":1},"repository":{"full_name":"a/b"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := ParseWorkflowJob(body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrIgnored) {
				t.Errorf("unclassed: %v", err)
			}
			if len(err.Error()) > 1000 {
				t.Error("the error is as large as what it complains of")
			}
			return
		}
		j := e.Job
		if j.GitHubID <= 0 || j.RunID <= 0 || !e.OwnedBy(e.Owner) || !strings.HasPrefix(j.Repository, e.Owner+"/") || jobStatus(j.Status) != j.Status || len(j.Labels) > maxLabels {
			t.Errorf("unsafe: %+v", e)
		}
	})
}
