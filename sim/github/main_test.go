package github

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/tests/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	org  = "acme"
	repo = "acme/app"
)

// rig is a server with one installation, all of whose answers and webhooks are held to GitHub's descriptions.
type rig struct {
	*Server
	t        *testing.T
	inst     int64
	token    string
	client   *http.Client
	sink     *httptest.Server
	mu       sync.Mutex
	received []received
	refuse   int // the receiver's answer, 0 is 202
}

type received struct {
	header http.Header
	body   []byte
	event  struct {
		Action      string `json:"action"`
		WorkflowJob struct {
			ID         int64  `json:"id"`
			Status     string `json:"status"`
			Conclusion string `json:"conclusion"`
			RunnerName string `json:"runner_name"`
		} `json:"workflow_job"`
	}
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	return buildRig(t, o, nil)
}

// buildRig builds a rig on loopback, or on pipes in memory.
func buildRig(t *testing.T, o Options, pipes *pipeNet) *rig {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	r := &rig{t: t, client: &http.Client{Transport: transport, Timeout: time.Minute}}
	rest, hooks := contract.NewREST(t), contract.NewWebhooks(t)
	o.observe = func(req *http.Request, status int, h http.Header, body []byte) {
		if err := rest.Response(req, status, h, body); err != nil {
			t.Errorf("%s %s answered %d against GitHub's description: %v\n%.300s", req.Method, req.URL.Path, status, err, body)
		}
	}
	r.sink = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if err := hooks.Payload(req.Header.Get("X-GitHub-Event"), body); err != nil {
			t.Errorf("webhook against GitHub's schema: %v\n%.300s", err, body)
		}
		got := received{header: req.Header, body: body}
		if err := json.Unmarshal(body, &got.event); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.received = append(r.received, got)
		status := r.refuse
		r.mu.Unlock()
		if status == 0 {
			status = http.StatusAccepted
		}
		w.WriteHeader(status)
	}))
	if pipes != nil {
		transport.DialContext = pipes.dial
		o.Listener, o.Webhooks = pipes.listen("sim:80"), &http.Client{Transport: transport}
		_ = r.sink.Listener.Close()
		r.sink.Listener = pipes.listen("sink:80")
	}
	r.sink.Start()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		r.sink.Close()
		r.client.CloseIdleConnections()
	})
	r.inst = s.AddInstallation(org, "Organization")
	s.AddRepository(r.inst, repo)
	r.token = r.mintToken(r.inst)
	return r
}

// appJWT signs a token as the App would.
func (r *rig) appJWT(change func(jwt.MapClaims)) string {
	r.t.Helper()
	now := r.now()
	c := jwt.MapClaims{"iss": fmt.Sprint(r.App().ID), "iat": now.Add(-30 * time.Second).Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	if change != nil {
		change(c)
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(r.App().PrivateKeyPEM)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := jwt.NewWithClaims(jwt.SigningMethodRS256, c).SignedString(key)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) mintToken(inst int64) string {
	r.t.Helper()
	var out struct {
		Token string `json:"token"`
	}
	a := r.as(r.appJWT(nil), "POST", fmt.Sprintf("/app/installations/%d/access_tokens", inst), "")
	a.want(201).into(&out)
	return out.Token
}

// got is an answer as a client sees it.
type got struct {
	t      *testing.T
	what   string
	status int // 0: the connection was dropped
	header http.Header
	body   []byte
}

func (r *rig) as(token, method, path, body string) got {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	g := got{t: r.t, what: method + " " + path}
	resp, err := r.client.Do(req)
	if err != nil {
		return g
	}
	defer func() { _ = resp.Body.Close() }()
	g.status, g.header = resp.StatusCode, resp.Header
	if g.body, err = io.ReadAll(resp.Body); err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *rig) do(method, path, body string) got {
	r.t.Helper()
	return r.as(r.token, method, path, body)
}

func (g got) want(status int) got {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("%s answered %d, want %d: %s", g.what, g.status, status, g.body)
	}
	return g
}

func (g got) into(v any) {
	g.t.Helper()
	if err := json.Unmarshal(g.body, v); err != nil {
		g.t.Fatal(err)
	}
}

func (g got) says(text string) got {
	g.t.Helper()
	if !strings.Contains(string(g.body), text) {
		g.t.Errorf("%s does not say %q: %s", g.what, text, g.body)
	}
	return g
}

// jit is the body of a request for a registration.
func jit(name string, labels ...string) string {
	b, err := json.Marshal(map[string]any{"name": name, "runner_group_id": 1, "labels": append([]string{}, labels...)})
	if err != nil {
		panic(err)
	}
	return string(b)
}

type runnerJSON struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Busy   bool   `json:"busy"`
	Labels []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"labels"`
}

type runnerList struct {
	Total   int          `json:"total_count"`
	Runners []runnerJSON `json:"runners"`
}

// mint registers a runner over the API and connects a scripted one to it.
func (r *rig) mint(path, name string, labels ...string) *fake {
	r.t.Helper()
	var out struct {
		Runner runnerJSON `json:"runner"`
		Config string     `json:"encoded_jit_config"`
	}
	r.do("POST", path+"/actions/runners/generate-jitconfig", jit(name, labels...)).want(201).into(&out)
	return newFake(r, out.Runner.ID, out.Config)
}

func (r *rig) list(path, query string) runnerList {
	r.t.Helper()
	var out runnerList
	r.do("GET", path+"/actions/runners"+query, "").want(200).into(&out)
	return out
}

// wait waits for a job's status.
func (r *rig) wait(id int64, status string) Job {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	j, err := r.WaitJob(ctx, id, status)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// settled waits until no delivery is under way and gives what has arrived.
func (r *rig) settled() []received {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.WaitDeliveries(ctx); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.received...)
}
