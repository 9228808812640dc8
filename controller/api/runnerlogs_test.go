package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/relay"
)

// stream is a connection that is sent events.
type stream struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
}

// watch opens a stream, and waits until it is admitted.
func (r *rig) watch(token, path string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept-Encoding", "gzip") // and is not given it: an event must not wait for the next
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Content-Encoding") != "" {
		raw, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, raw)
	}
	s := &stream{r.t, resp, bufio.NewScanner(resp.Body), cancel}
	s.lines.Buffer(nil, 1<<20)
	if !s.lines.Scan() || s.lines.Text() != ": watching" {
		r.t.Fatalf("the stream begins with %q", s.lines.Text())
	}
	return s
}

// next returns the next event and its data; "" at the end of the connection.
func (s *stream) next() (name, data string) {
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && name != "":
			return name, data
		}
	}
	return "", ""
}

func TestARunnersOutputIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.runners(r.seed.Pool, 1)[0]
	at := "/api/v1/runners/" + run.ID + "/logs"
	viewer := r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID))
	many := make([]*stream, 8)
	for i := range many {
		many[i] = r.watch(viewer, at)
	}
	out, in := io.Pipe()
	sent := make(chan error, 1)
	go func() { sent <- r.fleet.hub.Send(t.Context(), run.HostID, "stream", out) }()
	say := func(text string) {
		if _, err := io.WriteString(in, text); err != nil {
			t.Error(err)
		}
	}
	say("gr\xc3") // in the middle of a character
	if _, data := many[0].next(); data != `{"text":"gr"}` {
		t.Errorf("got %s", data)
	}
	say("\xbc\xc3\x9fe\n<b>\xff")
	late := r.watch(viewer, at)
	_ = in.Close()
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for i, s := range slices.Concat(many, []*stream{late}) {
		text := ""
		if i == 0 {
			text = "gr"
		}
		for {
			name, data := s.next()
			if name == "end" {
				var end api.LogEnd
				if err := json.Unmarshal([]byte(data), &end); err != nil || end.Reason != "ended" || end.Message == "" {
					t.Errorf("viewer %d: %s %v", i, data, err)
				}
				break
			}
			var c api.LogChunk
			if err := json.Unmarshal([]byte(data), &c); err != nil || name != "log" {
				t.Fatalf("viewer %d: %q %s %v", i, name, data, err)
			}
			text += c.Text
		}
		if text != "grüße\n<b>\ufffd" {
			t.Errorf("viewer %d saw %q", i, text)
		}
		if name, _ := s.next(); name != "" {
			t.Errorf("after the end comes %q", name)
		}
	}
	if n := r.fleet.hub.Watched(); n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

func TestAViewerWhoLeavesIsTakenOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.runners(r.seed.Pool, 1)[0]
	s := r.watch(r.as("vera", over(auth.Viewer)), "/api/v1/runners/"+run.ID+"/logs")
	out, in := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		sent <- r.fleet.hub.Send(t.Context(), run.HostID, "stream", out)
		_ = out.Close()
	}()
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	s.next()
	s.leave()
	if err := <-sent; err != nil { // it ends with the last viewer
		t.Error(err)
	}
}

func TestTheStreamIsInTheDescription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op := r.server.OpenAPI().Paths["/api/v1/runners/{id}/logs"].Get
	if op == nil || op.Responses["200"].Content["text/event-stream"] == nil || !strings.Contains(op.Description, "event lost with a LogLost") || len(op.Parameters) != 1 {
		t.Errorf("%+v", op)
	}
	all := r.server.OpenAPI().Components.Schemas.Map()
	for _, name := range []string{"LogChunk", "LogEnd", "LogLost", "Problem", "Host", "Runner", "Job", "Queue", "Explanation"} {
		if all[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	r.call("", "GET", "/api/v1/openapi.yaml", nil).want(200)
}

func TestWhoMayWatchARunner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, other := r.neighbour()
	run := r.runners(other, 1)[0]
	at := "/api/v1/runners/" + run.ID + "/logs"
	refused(t, r, "", "GET", at, nil, 401)
	refused(t, r, r.as("nemo"), "GET", at, nil, 403)
	refused(t, r, r.as("pia", overPool(auth.Admin, r.seed.Pool.ID)), "GET", at, nil, 404)
	viewer := r.as("vera", over(auth.Viewer))
	refused(t, r, viewer, "GET", "/api/v1/runners/run_none/logs", nil, 404)
	r.fleet.watch = relay.ErrFull
	if a := r.call(viewer, "GET", at, nil).want(503); a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
}
