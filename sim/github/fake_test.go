package github

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// fake is a runner whose every word a test says; the stand-in of sim/runner is the real one.
type fake struct {
	t       *testing.T
	r       *rig
	id      int64
	server  string
	token   string
	session string
}

func newFake(r *rig, id int64, blob string) *fake {
	r.t.Helper()
	f := &fake{t: r.t, r: r, id: id}
	var files map[string]string
	unpack(r.t, blob, &files)
	var settings RunnerSettings
	var creds RunnerCredentials
	unpack(r.t, files[".runner"], &settings)
	unpack(r.t, files[".credentials"], &creds)
	if files[".credentials_rsaparams"] == "" || settings.AgentID != fmt.Sprint(id) || settings.Ephemeral != "True" {
		r.t.Errorf("JIT configuration %+v", settings)
	}
	f.server, f.token = settings.ServerURL, creds.Data["token"]
	return f
}

func unpack(t *testing.T, blob string, v any) {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// call says one word to the runner service; status 0 means that ctx ended first.
func (f *fake) call(ctx context.Context, method, path string, body, out any) int {
	f.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	if s, ok := body.(string); ok {
		b = []byte(s)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.server+path, bytes.NewReader(b))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	resp, err := f.r.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if out != nil && resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(raw, out); err != nil {
			f.t.Errorf("%s: %v", raw, err)
		}
	}
	return resp.StatusCode
}

// open opens a session and returns the status.
func (f *fake) open() int {
	f.t.Helper()
	var out struct {
		SessionID string `json:"sessionId"`
	}
	status := f.call(context.Background(), "POST", "/sessions", map[string]any{"agentId": f.id, "version": "2.330.0"}, &out)
	if status == http.StatusOK {
		f.session = out.SessionID
	}
	return status
}

func (f *fake) online() *fake {
	f.t.Helper()
	if status := f.open(); status != http.StatusOK {
		f.t.Fatalf("opening a session answered %d", status)
	}
	return f
}

func (f *fake) close() int {
	return f.call(context.Background(), "DELETE", "/sessions/"+f.session, nil, nil)
}

type said struct {
	Kind string `json:"messageType"`
	Body struct {
		JobID int64 `json:"jobId"`
	} `json:"body"`
}

func (f *fake) poll(ctx context.Context) (int, said) {
	var m said
	status := f.call(ctx, "GET", "/sessions/"+f.session+"/message", nil, &m)
	return status, m
}

// take polls until a job comes, and acquires it.
func (f *fake) take() RunnerJob {
	f.t.Helper()
	for {
		status, m := f.poll(f.t.Context())
		if status == http.StatusAccepted {
			continue
		}
		if status != http.StatusOK || m.Kind != messageJob {
			f.t.Fatalf("poll answered %d %+v", status, m)
		}
		var j RunnerJob
		if status := f.job(m.Body.JobID, "acquire", nil, &j); status != http.StatusOK {
			f.t.Fatalf("acquire answered %d", status)
		}
		return j
	}
}

func (f *fake) job(id int64, verb string, body, out any) int {
	return f.call(context.Background(), "POST", fmt.Sprintf("/jobs/%d/%s", id, verb), body, out)
}

func (f *fake) finish(id int64, result string) {
	f.t.Helper()
	if status := f.job(id, "finish", map[string]string{"result": result}, nil); status != http.StatusNoContent {
		f.t.Fatalf("finish answered %d", status)
	}
}
