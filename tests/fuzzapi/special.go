package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// showsOnce are the new secrets that an answer is there to show.
func showsOnce(op string, resp *httptest.ResponseRecorder) (secrets []string) {
	field := map[string]string{"create-token": "token", "create-join-token": "token", "create-installation": "webhook_secret", "start-manifest": "state"}[op]
	if field != "" {
		var body map[string]any
		if json.Unmarshal(resp.Body.Bytes(), &body) == nil {
			if s, _ := body[field].(string); s != "" {
				secrets = append(secrets, s)
			}
		}
	}
	if op == "agent-api" {
		var body protocol.TaskBody // the host gets what its runner registers with
		if json.Unmarshal(resp.Body.Bytes(), &body) == nil && body.Task != nil && body.Task.Create != nil {
			secrets = append(secrets, body.Task.Create.JITConfig)
		}
	}
	if op == "sign-in" {
		for _, c := range resp.Result().Cookies() {
			secrets = append(secrets, c.Value)
		}
	}
	return secrets
}

// sign makes a request that must prove itself do so, most of the time.
func (r *runner) sign(c *call) {
	if c.headers == nil {
		c.headers = map[string]string{}
	}
	path, _, _ := strings.Cut(c.path, "?")
	if _, state, ok := strings.Cut(path, "/setup/github/"); ok {
		c.path = path
		c.knowsState, _, _ = strings.Cut(state, "/")
		if code := r.g.known["manifest-created.code"]; len(code) > 0 && c.op.ID == "manifest-created" {
			c.path += "?" + url.Values{"state": {c.knowsState}, "code": {code[len(code)-1]}}.Encode()
		} else if c.op.ID == "manifest-installed" {
			c.path += "?" + url.Values{"state": {c.knowsState}, "installation_id": {"1"}, "setup_action": {[]string{"install", "request"}[r.r.IntN(2)]}}.Encode()
		}
		return
	}
	if _, state, ok := strings.Cut(path, "/github/manifest/"); ok {
		c.knowsState = state
	}
	switch c.op.ID {
	case "github-webhook":
		r.delivery(c)
	case "agent-api":
		r.agentCall(c)
	}
}

func (r *runner) delivery(c *call) {
	c.body = mustJSON(map[string]any{
		"action": r.g.word(), "installation": map[string]any{"id": r.w.ins.InstallationID}, "repository": map[string]any{"full_name": "acme/widgets"},
		"workflow_job": map[string]any{"id": r.r.IntN(1000), "run_id": 1, "name": r.g.word(), "labels": []any{r.g.wild()}, "status": "queued"}, r.g.word(): r.g.wild(),
	})
	if r.g.one(2) {
		c.body = mustJSON(map[string]any{"zen": r.g.word()})
	}
	mac := hmac.New(sha256.New, []byte(r.w.github.App().WebhookSecret))
	mac.Write(c.body)
	c.headers["X-Hub-Signature-256"] = "sha256=" + hex.EncodeToString(mac.Sum(nil))
	c.headers["X-GitHub-Event"] = []string{"workflow_job", "ping", headerSafe(r.g.word())}[r.r.IntN(3)]
	c.headers["X-GitHub-Delivery"] = fmt.Sprintf("%08d-0000-4000-8000-000000000000", r.Requests)
	if r.g.one(5) {
		delete(c.headers, "X-Hub-Signature-256")
	}
}

func (r *runner) agentCall(c *call) {
	c.op.Method, c.path = http.MethodPost, []string{protocol.PathJoin, protocol.PathHeartbeat, protocol.PathResult, protocol.PathReports}[r.r.IntN(4)]
	c.body = mustJSON(map[string]any{
		"host": map[string]any{"os": "linux", "capacity": r.r.IntN(20), "labels": map[string]any{r.g.word(): r.g.word()}}, "counted": false,
		"token": r.w.watch.fresh("a join token"), "name": r.g.word(), "task_id": r.g.word(), "reports": []any{map[string]any{"runner_id": r.g.word(), "phase": r.g.word()}},
		"error": r.g.word(),
	})
	if !r.g.one(4) {
		c.headers["Authorization"], c.headers[protocol.HeaderHost] = "Bearer "+r.w.agent, r.w.host.ID
	}
	if r.g.one(10) {
		c.op.Method, c.path, c.body = http.MethodGet, protocol.PathTasks+"?wait=0", nil
	}
}

// follow does what a person would after some answers, so that the next step can be tried.
func (r *runner) follow(c call, body []byte) {
	if c.op.ID != "start-manifest" {
		return
	}
	var start struct {
		State string `json:"state"`
	}
	if json.Unmarshal(body, &start) != nil {
		return
	}
	if len(r.g.known["manifest-form.state"]) > 0 && !r.g.one(3) {
		return // the flow before has not ended yet
	}
	for _, op := range []string{"finish-manifest", "manifest-form", "manifest-created", "manifest-installed"} {
		r.g.known[op+".state"] = []string{start.State}
	}
	if code := r.clickThrough(start.State); code != "" {
		r.w.watch.add("GitHub's code for an App", code)
		r.g.known["finish-manifest.code"], r.g.known["manifest-created.code"] = []string{code}, []string{code}
	}
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)">`)
	formField  = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// clickThrough makes the App at the simulated GitHub, and returns its code.
func (r *runner) clickThrough(state string) string {
	resp, err := r.do(call{op: operation{Method: http.MethodGet}, path: "/setup/github/" + state}, caller{})
	if err != nil {
		return ""
	}
	action, manifest := formAction.FindStringSubmatch(resp.Body.String()), formField.FindStringSubmatch(resp.Body.String())
	if action == nil || manifest == nil {
		return ""
	}
	client := r.w.onlyGitHub()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	form := strings.NewReader(url.Values{"manifest": {html.UnescapeString(manifest[1])}}.Encode())
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, html.UnescapeString(action[1]), form)
	if err != nil {
		return ""
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	at, err := client.Do(req)
	if err != nil {
		return "" // an address that is not this world's GitHub
	}
	_ = at.Body.Close()
	to, err := at.Location()
	if err != nil {
		return ""
	}
	return to.Query().Get("code")
}
