package controller

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// delivery is a request to the webhook, made right unless a test says otherwise.
type delivery struct {
	method, event, id, kind, secret string
	body                            []byte
}

// post sends a delivery and returns the answer's status and its outcome.
func (r *rig) post(d delivery) (int, string) {
	r.t.Helper()
	if d.method == "" {
		d.method = http.MethodPost
	}
	if d.event == "" {
		d.event = "workflow_job"
	}
	if d.id == "" {
		d.id = store.NewID("guid-")
	}
	if d.kind == "" {
		d.kind = "application/json"
	}
	if d.secret == "" {
		d.secret = r.gh.App().WebhookSecret
	}
	req, err := http.NewRequestWithContext(r.t.Context(), d.method, r.web.URL+"/webhooks/github", bytes.NewReader(d.body))
	if err != nil {
		r.t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(d.secret))
	mac.Write(d.body)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set("X-GitHub-Event", d.event)
	req.Header.Set("X-GitHub-Delivery", d.id)
	req.Header.Set("Content-Type", d.kind)
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var said struct{ Outcome, Detail string }
	_ = json.Unmarshal(raw, &said) // a 405 has no body
	return resp.StatusCode, said.Outcome
}

// deliver posts a body under a GUID, "" being a new one, and insists that it is accepted.
func (r *rig) deliver(_ string, body []byte, id string) {
	r.t.Helper()
	if status, outcome := r.post(delivery{body: body, id: id}); status/100 != 2 {
		r.t.Errorf("a delivery was answered %d %s", status, outcome)
	}
}

// payload is a workflow_job delivery's body.
func payload(repository, action string, job map[string]any) []byte {
	full := map[string]any{"id": 4711, "run_id": 11, "run_attempt": 1, "name": "build", "labels": []string{"zoomies"}, "status": action, "created_at": "2026-01-01T00:00:00Z"}
	maps.Copy(full, job)
	b, err := json.Marshal(map[string]any{"action": action, "workflow_job": full, "repository": map[string]any{"full_name": repository}})
	if err != nil {
		panic(err)
	}
	return b
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{settings: func(s *Settings) { s.MaxWebhookBody = 4096 }})
	in := r.install("acme", "acme/widgets")
	if _, err := r.st.CreateGitHubApp(t.Context(), store.GitHubApp{AppID: 99, Slug: "new", Name: "new", PrivateKey: secrets.Of("key"), WebhookSecret: secrets.Of("of a new App")}); err != nil {
		t.Fatal(err)
	}
	good := payload("acme/widgets", "queued", nil)
	form := []byte("payload=" + url.QueryEscape(string(payload("acme/widgets", "queued", map[string]any{"id": 4712}))))
	nested := []byte(strings.Repeat("[", 4000))
	for _, c := range []struct {
		name    string
		d       delivery
		status  int
		outcome string
	}{
		{"a body that no parser should see", delivery{body: nested, secret: "guessed"}, 401, outcomeRefused},
		{"an unknown secret", delivery{body: good, secret: "guessed"}, 401, outcomeRefused},
		{"too large", delivery{body: bytes.Repeat([]byte(" "), 4097)}, 413, outcomeRefused},
		{"signed nonsense", delivery{body: nested}, 400, outcomeRefused},
		{"ping", delivery{event: "ping", body: []byte(`{"zen":"x"}`)}, 200, outcomeIgnored},
		{"ping of an App that is not installed yet", delivery{event: "ping", body: []byte(`{"zen":"x"}`), secret: "of a new App"}, 200, outcomeIgnored},
		{"another event", delivery{event: "push", body: []byte(`{}`)}, 200, outcomeIgnored},
		{"a repository that nobody serves", delivery{body: payload("other/repo", "queued", nil)}, 202, outcomeIgnored},
		{"an action that nobody knows", delivery{body: payload("acme/widgets", "dreamt", nil)}, 200, outcomeIgnored},
		{"a job", delivery{body: good, id: "guid-1"}, 202, outcomeApplied},
		{"the same delivery again", delivery{body: good, id: "guid-1"}, 200, outcomeDuplicate},
		{"as a form", delivery{body: form, kind: "application/x-www-form-urlencoded"}, 202, outcomeApplied},
		{"as text", delivery{body: good, kind: "text/plain"}, 415, outcomeRefused},
		{"not posted", delivery{method: http.MethodGet}, 405, ""},
	} {
		if status, outcome := r.post(c.d); status != c.status || outcome != c.outcome {
			t.Errorf("%s: answered %d %q, want %d %q", c.name, status, outcome, c.status, c.outcome)
		}
	}
	jobs, err := r.st.Jobs(t.Context(), store.JobFilter{})
	if err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs are known, want 2: %v", len(jobs), err)
	}
	if got, err := r.st.Installation(t.Context(), in.ID); err != nil || got.LastDeliveryAt.IsZero() {
		t.Errorf("the delivery was not credited: %v", err)
	}
}

// Deliveries are credited to the installation that owns the repository, not to the one whose secret signed them: else one
// organisation's webhooks would silence the poller for another whose webhooks reach nobody.
func TestDeliveryIsCreditedToTheRepositorysOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	acme, globex := r.install("acme", "acme/widgets"), r.install("globex", "globex/gears")
	globex.WebhookSecret = secrets.Of("a secret of globex")
	if err := r.st.UpdateInstallation(t.Context(), globex); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.post(delivery{body: payload("acme/widgets", "queued", nil), secret: "a secret of globex"}); status != http.StatusAccepted {
		t.Fatalf("answered %d", status)
	}
	for _, want := range []struct {
		in    store.Installation
		heard bool
	}{{acme, true}, {globex, false}} {
		got, err := r.st.Installation(t.Context(), want.in.ID)
		if err != nil || got.LastDeliveryAt.IsZero() == want.heard {
			t.Errorf("installation %s: last delivery %s: %v", got.Name, got.LastDeliveryAt, err)
		}
	}
}
