package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// stale are examples from 2021 that lack fields which GitHub has sent since: the schemas rightly refuse them.
var stale = map[string]int{"workflow_job": 0, "ping": 0}

// TestGitHubsOwnWebhooksPass guards the validator itself: what GitHub really sent must pass it.
func TestGitHubsOwnWebhooksPass(t *testing.T) {
	t.Parallel()
	w := NewWebhooks(t)
	for event, old := range stale {
		examples := Examples(t, event)
		if len(examples) < 4 {
			t.Fatalf("%d examples of %s", len(examples), event)
		}
		for i, e := range examples {
			err := w.Payload(event, e)
			if i == old {
				if err == nil || !strings.Contains(err.Error(), "missing propert") {
					t.Errorf("%s example %d of 2021: %v; want missing properties", event, i, err)
				}
			} else if err != nil {
				t.Errorf("%s example %d: %v", event, i, err)
			}
		}
	}
}

// TestWrongWebhooksFail shows that the validator can say no: GitHub's own payload with one thing changed must fail.
func TestWrongWebhooksFail(t *testing.T) {
	t.Parallel()
	w := NewWebhooks(t)
	whole := Examples(t, "workflow_job")[6]
	tests := map[string]func(m map[string]any){
		"no action":          func(m map[string]any) { delete(m, "action") },
		"an unknown action":  func(m map[string]any) { m["action"] = "begun" },
		"a field too many":   func(m map[string]any) { m["workflow_jobs"] = 1 },
		"an unknown status":  func(m map[string]any) { job(m)["status"] = "running" },
		"no labels":          func(m map[string]any) { delete(job(m), "labels") },
		"an id as a string":  func(m map[string]any) { job(m)["id"] = "12" },
		"a time without day": func(m map[string]any) { job(m)["created_at"] = "12:00" },
		"an address that is none": func(m map[string]any) {
			m["repository"].(map[string]any)["labels_url"] = "labels{/name"
		},
	}
	for name, change := range tests {
		var m map[string]any
		if err := json.Unmarshal(whole, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if w.Payload("workflow_job", b) == nil {
			t.Errorf("a payload with %s passes", name)
		}
	}
	if w.Payload("workflow_job", []byte(`{`)) == nil || w.Payload("no_such_event", whole) == nil {
		t.Error("half a payload, or one of an unknown event, passes")
	}
}

func job(m map[string]any) map[string]any { return m["workflow_job"].(map[string]any) }

// TestResponses: right answers pass, and each wrong one fails.
func TestResponses(t *testing.T) {
	t.Parallel()
	c := NewREST(t)
	const runner = `{"id":1,"name":"a","os":"Linux","status":"online","busy":false,"labels":[{"id":1,"name":"x","type":"custom"}]}`
	const list = "/api/v3/orgs/acme/actions/runners"
	failed := `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`
	tests := []struct {
		name, method, path string
		status             int
		body               string
		ok                 bool
	}{
		{"a list", "GET", list, 200, `{"total_count":1,"runners":[` + runner + `]}`, true},
		{"a list without a count", "GET", list, 200, `{"runners":[]}`, false},
		{"a runner without a name", "GET", list, 200, `{"total_count":1,"runners":[{"id":1,"os":"x","status":"online","busy":false,"labels":[]}]}`, false},
		{"a misspelt field", "GET", list, 200, `{"total_count":0,"runners":[],"runers":[]}`, false},
		{"a wrong type", "GET", list, 200, `{"total_count":"1","runners":[]}`, false},
		{"an unknown label type", "GET", list, 200, strings.Replace(`{"total_count":1,"runners":[`+runner+`]}`, "custom", "mine", 1), false},
		{"a status of its own", "GET", list, 201, `{"total_count":0,"runners":[]}`, false},
		{"an unlisted error", "GET", list, 401, failed, true},
		{"an unlisted error without message", "GET", list, 401, `{"documentation_url":"x"}`, false},
		{"a listed error", "POST", list + "/generate-jitconfig", 409, failed, true},
		{"a listed error that is text", "POST", list + "/generate-jitconfig", 409, `"no"`, false},
		{"a deletion", "DELETE", list + "/1", 204, "", true},
		{"a deletion with a body", "DELETE", list + "/1", 204, "{}", false},
		{"a token", "POST", list + "/registration-token", 201, `{"token":"x","expires_at":"2026-11-30T12:00:00Z"}`, true},
		{"a token with a wrong time", "POST", list + "/registration-token", 201, `{"token":"x","expires_at":"tomorrow"}`, false},
		{"an unknown path, not found", "GET", "/api/v3/nothing", 404, failed, true},
		{"an unknown path, answered", "GET", "/api/v3/nothing", 200, "{}", false},
		{"an empty answer", "GET", list, 200, "", false},
	}
	for _, tt := range tests {
		h := http.Header{"X-Ratelimit-Limit": {"5000"}, "X-Github-Request-Id": {"1"}}
		if tt.body != "" {
			h.Set("Content-Type", "application/json; charset=utf-8")
		}
		err := c.Response(httptest.NewRequest(tt.method, tt.path, nil), tt.status, h, []byte(tt.body))
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, list, nil)
	if c.Response(r, 200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"total_count":0,"runners":[]}`)) == nil {
		t.Error("an answer without GitHub's headers passes")
	}
}

// TestRequests: what a client sends is checked too.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := NewREST(t)
	const path = "/api/v3/orgs/acme/actions/runners/generate-jitconfig"
	for body, ok := range map[string]bool{
		`{"name":"a","runner_group_id":1,"labels":["x"]}`: true,
		`{"name":"a","labels":["x"]}`:                     false,
		`{"name":"a","runner_group_id":1,"labels":[]}`:    false,
	} {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body)))
		r.Header.Set("Content-Type", "application/json")
		if err := c.Request(r, []byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestTheLockNamesNoRegistry: exact versions with their hashes, and no host that they came from.
func TestTheLockNamesNoRegistry(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("://")) || bytes.Contains(b, []byte("resolved")) {
			t.Errorf("%s names a host", name)
		}
		for _, pin := range []string{`"23.0.2"`, `"7.6.1"`} {
			if !bytes.Contains(b, []byte(pin)) {
				t.Errorf("%s does not pin %s", name, pin)
			}
		}
	}
}

func TestMissingDescriptionsSayWhatToDo(t *testing.T) {
	t.Parallel()
	if _, err := read("no-such-package/file.json"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "run make contract") {
		t.Errorf("the error is %v", err)
	}
}
