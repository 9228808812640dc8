package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// whole puts the API in front of a rig's controller, and returns an operator's API token.
func (r *rig) whole() string {
	r.t.Helper()
	s := api.New(api.Options{
		Store: r.st, Fleet: r.c(), SignIn: signin.New(signin.Options{Store: r.st, Now: r.clock.now}), Version: "test", Now: r.clock.now, Logger: r.logger(), Rest: r.c().Handler(),
	})
	h := s.Handler()
	r.front.Store(&h)
	u, err := r.st.CreateUser(r.t.Context(), store.User{Name: "oz", Source: "local", Grants: []store.Grant{{Role: string(auth.Admin), ScopeKind: store.ScopeFleet}}})
	if err != nil {
		r.t.Fatal(err)
	}
	token := auth.NewToken(auth.PrefixAPI)
	if _, err := r.st.CreateAPIToken(r.t.Context(), store.APIToken{Name: "t", Hash: auth.HashToken(token), UserID: u.ID, Scopes: []string{"*"}, Grants: u.Grants}); err != nil {
		r.t.Fatal(err)
	}
	return token
}

// ask makes a request to the API, and reads the answer into out unless that is nil.
func (r *rig) ask(ctx context.Context, token, method, path, body string, out any) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.web.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.http.Do(req)
	if err != nil || out == nil {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, out)
	}
	return resp, err
}

func (r *rig) must(token, method, path, body string, status int, out any) {
	r.t.Helper()
	var raw json.RawMessage
	resp, err := r.ask(r.t.Context(), token, method, path, body, &raw) //nolint:bodyclose // ask has read and closed it
	if err != nil || resp.StatusCode != status {
		r.t.Fatalf("%s %s: %v %v: %s", method, path, resp, err, raw)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			r.t.Fatal(err)
		}
	}
}

// follow reads a runner's output over HTTP until it has seen the text, or to the end of the stream.
func (r *rig) follow(ctx context.Context, token, runner, until string, began func()) (text string, err error) {
	resp, err := r.ask(ctx, token, "GET", "/runners/"+runner+"/logs", "", nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	event := ""
	for lines.Scan() {
		line := lines.Text()
		if line == ": watching" && began != nil {
			began()
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		switch event {
		case "end":
			return text, nil
		case "log":
			var c api.LogChunk
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				return text, err
			}
			if text += c.Text; until != "" && strings.HasSuffix(text, until) {
				return text, nil
			}
		default:
			return text, fmt.Errorf("event %s: %s", event, data)
		}
	}
	return text, fmt.Errorf("the connection ended after %q: %w", text, lines.Err())
}

// An agent and forty viewers over HTTP, through everything that stands before the routes.
func TestOutputIsFollowedThroughTheWholeServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.pool(r.install("acme", "acme/widgets"), nil)
	token := r.whole()
	r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
	c, err := httpclient.New(httpclient.Options{Address: r.web.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r.hostVia("host-1", 10, c)
	id := r.job("wait")
	r.waitJob(id, "in_progress", "")
	row := r.runner(store.RunnerBusy)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for round := range 2 {
		var watching, done sync.WaitGroup
		watching.Add(40)
		line := fmt.Sprintf("round %d\n", round)
		for range 40 {
			done.Go(func() {
				var once sync.Once
				if _, err := r.follow(ctx, token, row.ID, line, func() { once.Do(watching.Done) }); err != nil {
					t.Error(err)
					once.Do(watching.Done)
				}
			})
		}
		watching.Wait()
		r.hosts[0].engine.Print(row.ID, line)
		done.Wait()
		r.until("nobody watches", func() bool { return r.c().relay.Watched() == 0 })
	}
	last := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		text, err := r.follow(ctx, token, row.ID, "", func() { close(began) })
		if err == nil && text != "round 0\nround 1\nbye" {
			err = fmt.Errorf("it saw %q", text)
		}
		last <- err
	}()
	<-began
	r.hosts[0].engine.Print(row.ID, "bye")
	r.until("the host has begun to send", func() bool {
		ts, err := r.st.Tasks(t.Context(), row.ID)
		n := 0
		for _, x := range ts {
			if x.Kind == "stream_logs" && x.State == store.TaskDone {
				n++
			}
		}
		return err == nil && n == 3
	})
	r.finishJob(id)
	if err := <-last; err != nil {
		t.Error(err)
	}
	r.nothingLeft()
}

// An operator's day, over HTTP: what the routes promise the loops keep.
func TestAnOperatorsDay(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	token := r.whole()
	failing := r.job("exit 1")
	r.completed(failing, "failure")
	j := r.jobOf(p.InstallationID, failing)
	var job api.Job
	r.until("the job is over here, too", func() bool {
		r.must(token, "GET", "/jobs/"+j.ID, "", 200, &job)
		return job.State == "completed" && job.RunnerID != ""
	})
	if job.Fault != "workflow" {
		t.Errorf("%+v", job)
	}
	var line api.JobTimeline
	r.must(token, "GET", "/jobs/"+j.ID+"/timeline", "", 200, &line)
	if len(line.Steps) < 6 || line.WaitedMS == nil || line.RanMS == nil || line.HostID == "" {
		t.Errorf("timeline: %+v", line)
	}

	r.must(token, "PUT", "/queue/pause", `{"reason":"the rack is hot"}`, 200, nil)
	r.must(token, "POST", "/jobs/"+j.ID+"/rerun", "", 200, nil)
	var queued api.Page[api.Job]
	r.until("the job waits again", func() bool {
		r.must(token, "GET", "/jobs?state=queued", "", 200, &queued)
		return len(queued.Items) == 1
	})
	again := queued.Items[0]
	var why api.Explanation
	r.must(token, "GET", "/jobs/"+again.ID+"/explanation", "", 200, &why)
	if why.Wait != "paused" || !strings.HasSuffix(why.Why, ": the rack is hot") || why.Blocked == nil {
		t.Errorf("explanation: %+v", why)
	}
	r.must(token, "POST", "/jobs/"+again.ID+"/cancel", "", 200, nil)
	r.until("it is cancelled", func() bool {
		r.must(token, "GET", "/jobs/"+again.ID, "", 200, &job)
		return job.Conclusion == "cancelled" && job.Fault == ""
	})
	r.must(token, "POST", "/jobs/"+again.ID+"/cancel", "", 409, nil)
	r.must(token, "DELETE", "/queue/pause", "", 204, nil)

	long := r.job("wait")
	r.waitJob(long, "in_progress", "")
	busy := r.runner(store.RunnerBusy)
	var host api.Host
	r.must(token, "PUT", "/hosts/"+busy.HostID+"/drain", "", 200, &host)
	if !host.Draining || host.UsedSlots != 1 {
		t.Errorf("host: %+v", host)
	}
	r.runner(store.RunnerDraining)
	r.must(token, "DELETE", "/hosts/"+busy.HostID, "", 409, nil)
	r.finishJob(long)
	r.completed(long, "success")
	r.nothingLeft()
	r.must(token, "DELETE", "/hosts/"+busy.HostID, "", 204, nil)
	var rows []store.AuditRow
	rows, err := r.st.AuditRows(t.Context(), store.AuditFilter{Since: time.Unix(0, 0)})
	if err != nil || len(rows) != 6 { // pause, rerun, cancel, resume, drain, delete: what was refused left none
		t.Errorf("%d audit rows: %v", len(rows), err)
	}
}
