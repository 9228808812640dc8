package httpclient_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a controller whose answers a test sets.
type scripted struct {
	mu   sync.Mutex
	cred protocol.Credential
	got  any
	wait time.Duration
	held []string
	said bool
	err  error
	task *protocol.Task
	logs func(ctx context.Context, stream string, r io.Reader) error
	hold chan struct{} // a poll waits for it
}

func (s *scripted) note(cred protocol.Credential, got any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cred, s.got = cred, got
	return s.err
}

func (s *scripted) Join(_ context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	return protocol.JoinResponse{HostID: "hst_1", AgentToken: "secret", HeartbeatInterval: 30}, s.note(protocol.Credential{}, req)
}

func (s *scripted) Heartbeat(_ context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	return protocol.HeartbeatResponse{HeartbeatInterval: 12.5, Cordoned: true}, s.note(cred, hb)
}

func (s *scripted) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	s.mu.Lock()
	s.wait = wait
	s.held, s.said = protocol.HeldOf(ctx)
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.task, s.note(cred, nil)
}

func (s *scripted) Result(_ context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	return s.note(cred, res)
}

func (s *scripted) Report(_ context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	return protocol.ReportResponse{Finished: []string{"run_9"}, FinishedRetention: 60}, s.note(cred, reports)
}

func (s *scripted) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	if err := s.note(cred, nil); err != nil {
		return err
	}
	return s.logs(ctx, stream, r)
}

var cred = protocol.Credential{HostID: "hst_1", Token: "secret"}

func serve(t *testing.T, c protocol.Controller) *httpclient.Client {
	t.Helper()
	srv := httptest.NewServer(protocol.Handler(c))
	t.Cleanup(srv.Close)
	return dial(t, httpclient.Options{Address: srv.URL})
}

func dial(t *testing.T, o httpclient.Options) *httpclient.Client {
	t.Helper()
	c, err := httpclient.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What one half says is what the other half hears, call by call.
func TestEveryCallArrivesWhole(t *testing.T) {
	t.Parallel()
	code := 3
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	join := protocol.JoinRequest{Token: "zoojoin_x", Name: "a", Version: "v1", Protocol: 1, Host: protocol.HostInfo{
		OS: "linux", Arch: "amd64", CPUs: 1.5, Labels: map[string]string{"size": "medium"},
		Backends: []protocol.BackendInfo{{Name: "podman", CPULimit: true}},
	}}
	hb := protocol.Heartbeat{Version: "v1", Load1: 0.25, Usage: []protocol.RunnerUsage{{RunnerID: "run_1", At: now, CPUs: 0.5, MemoryMB: 7}}}
	res := protocol.TaskResult{TaskID: "tsk_1", Attempt: 2, OK: true, WorkloadID: "abc", StartedAt: now}
	reports := []protocol.RunnerReport{{RunnerID: "run_1", State: "failed", Phase: protocol.PhaseExited, ExitCode: &code, Message: "no"}}
	task := &protocol.Task{ID: "tsk_1", Kind: protocol.TaskCreate, RunnerID: "run_1", Attempt: 1, LeaseUntil: now, Create: &protocol.CreateRunner{
		Name: "zoomies-1", JITConfig: "j", Env: map[string]string{"A": "b"}, DaemonWait: 180, Timeout: 600,
		Registration: &protocol.Registration{URL: "https://github.com/o", Token: "t", Labels: []string{"zoomies"}},
	}}
	s := &scripted{task: task}
	c := serve(t, s)
	ctx := t.Context()

	check := func(what string, err error, sent any, auth bool) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if sent != nil && !reflect.DeepEqual(s.got, sent) {
			t.Errorf("%s: heard %+v, said %+v", what, s.got, sent)
		}
		if auth && s.cred != cred {
			t.Errorf("%s: credential %v arrived", what, s.cred)
		}
	}
	jr, err := c.Join(ctx, join)
	check("join", err, join, false)
	if jr.HostID != "hst_1" || jr.AgentToken != "secret" || jr.HeartbeatInterval != 30 {
		t.Errorf("join answered %+v", jr)
	}
	hr, err := c.Heartbeat(ctx, cred, hb)
	check("heartbeat", err, hb, true)
	if hr.HeartbeatInterval != 12.5 || !hr.Cordoned {
		t.Errorf("heartbeat answered %+v", hr)
	}
	got, err := c.Poll(protocol.WithHeld(ctx, []string{"tsk_7", "tsk_8"}), cred, 1500*time.Millisecond)
	check("poll", err, nil, true)
	if !s.said || !slices.Equal(s.held, []string{"tsk_7", "tsk_8"}) {
		t.Errorf("held tasks arrived as %v, %v", s.held, s.said)
	}
	if !reflect.DeepEqual(got, task) || s.wait != 1500*time.Millisecond {
		t.Errorf("poll brought %+v after %s", got, s.wait)
	}
	s.task = nil
	if got, err = c.Poll(ctx, cred, time.Hour); s.said || got != nil || err != nil || s.wait != protocol.MaxWait {
		t.Errorf("an empty poll brought %+v, %v after %s", got, err, s.wait)
	}
	check("result", c.Result(ctx, cred, res), res, true)
	rr, err := c.Report(ctx, cred, reports)
	check("report", err, reports, true)
	if !reflect.DeepEqual(rr, protocol.ReportResponse{Finished: []string{"run_9"}, FinishedRetention: 60}) {
		t.Errorf("report answered %+v", rr)
	}
}

func TestErrorsKeepTheirClass(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	c := serve(t, s)
	for _, class := range []error{protocol.ErrUnauthorized, protocol.ErrConflict, protocol.ErrInvalid} {
		s.err = fmt.Errorf("because of this: %w", class)
		if err := c.Result(t.Context(), cred, protocol.TaskResult{}); !errors.Is(err, class) || !strings.Contains(err.Error(), "because of this") {
			t.Errorf("%v came back as %v", class, err)
		}
	}
	s.err = errors.New("the database password is hunter2")
	err := c.Result(t.Context(), cred, protocol.TaskResult{})
	var status *protocol.StatusError
	if !errors.As(err, &status) || status.Status != http.StatusInternalServerError || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an internal fault came back as %v", err)
	}
	if _, err := c.Heartbeat(t.Context(), protocol.Credential{}, protocol.Heartbeat{}); !errors.Is(err, protocol.ErrUnauthorized) {
		t.Errorf("no credential: %v", err)
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	stolen := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen <- r.Header.Get("Authorization") }))
	defer thief.Close()
	srv := httptest.NewServer(http.RedirectHandler(thief.URL+"/x?secret=1", http.StatusTemporaryRedirect))
	defer srv.Close()
	_, err := dial(t, httpclient.Options{Address: srv.URL}).Heartbeat(t.Context(), cred, protocol.Heartbeat{})
	if err == nil || !strings.Contains(err.Error(), "redirects to") || strings.Contains(err.Error(), "secret=1") {
		t.Errorf("a redirect: %v", err)
	}
	select {
	case tok := <-stolen:
		t.Errorf("the redirect was followed with %q", tok)
	default:
	}
}

func TestOnlyAPinnedCAIsTrusted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(protocol.Handler(&scripted{}))
	defer srv.Close()
	srv.Config.ErrorLog = nil
	if _, err := dial(t, httpclient.Options{Address: srv.URL}).Poll(t.Context(), cred, 0); err == nil {
		t.Error("an unknown authority was trusted")
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if _, err := dial(t, httpclient.Options{Address: srv.URL, CA: ca}).Poll(t.Context(), cred, 0); err != nil {
		t.Errorf("with the pinned CA: %v", err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://zoomies.example.org": true, "https://zoomies.example.org:8443/zoomies/": true,
		"http://127.0.0.1:8080": true, "http://[::1]:80": true, "http://localhost": true,
		"http://zoomies.example.org": false, "ftp://x": false, "zoomies.example.org": false, "": false,
		"https://user:pw@zoomies.example.org": false, "https://x?token=1": false, "https://x#y": false, "https://": false, "://": false,
	} {
		_, err := httpclient.New(httpclient.Options{Address: address})
		if (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the error quotes the password: %v", address, err)
		}
	}
	if _, err := httpclient.New(httpclient.Options{Address: "http://10.0.0.1", AllowHTTP: true}); err != nil {
		t.Errorf("AllowHTTP: %v", err)
	}
	if _, err := httpclient.New(httpclient.Options{Address: "https://x", CA: []byte("no")}); err == nil {
		t.Error("a CA without a certificate was accepted")
	}
}

// A prefix in the address is kept, for a controller behind a path.
func TestAddressWithPrefix(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.StripPrefix("/fleet", protocol.Handler(&scripted{})))
	defer srv.Close()
	if _, err := dial(t, httpclient.Options{Address: srv.URL + "/fleet/"}).Poll(t.Context(), cred, 0); err != nil {
		t.Error(err)
	}
}

func TestALongPollEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := &scripted{hold: make(chan struct{})}
	c := serve(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(ctx, func() { close(s.hold) })
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Poll(ctx, cred, 30*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("Poll: %v", err)
	}
}

// A server's own timeouts, made for quick answers, must cut neither a poll nor a log.
func TestServerTimeoutsDoNotCutWaitingCalls(t *testing.T) {
	t.Parallel()
	s := &scripted{hold: make(chan struct{})}
	s.logs = func(_ context.Context, _ string, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	srv := httptest.NewUnstartedServer(protocol.Handler(s))
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	srv.Start()
	defer srv.Close()
	c := dial(t, httpclient.Options{Address: srv.URL})
	time.AfterFunc(150*time.Millisecond, func() { close(s.hold) })
	if _, err := c.Poll(t.Context(), cred, time.Second); err != nil {
		t.Errorf("Poll: %v", err)
	}
	pr, pw := io.Pipe()
	time.AfterFunc(150*time.Millisecond, func() { _ = pw.Close() })
	if err := c.SendLogs(t.Context(), cred, "s1", pr); err != nil {
		t.Errorf("SendLogs: %v", err)
	}
}

func TestLogsFlowAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 8)
	s := &scripted{logs: func(_ context.Context, stream string, r io.Reader) error {
		buf := make([]byte, 64)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				lines <- stream + ":" + string(buf[:n])
			}
			if err != nil {
				close(lines)
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
		}
	}}
	c := serve(t, s)
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.SendLogs(t.Context(), cred, "str/1 x", pr) }()
	for _, l := range []string{"one", "two"} {
		_, _ = pw.Write([]byte(l))
		if got := <-lines; got != "str/1 x:"+l {
			t.Errorf("got %q", got)
		}
	}
	_ = pw.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-lines
}

// When nobody watches any more the agent hears it in the middle of a quiet log.
func TestAViewerThatLeavesEndsTheStream(t *testing.T) {
	t.Parallel()
	s := &scripted{logs: func(context.Context, string, io.Reader) error { return nil }}
	c := serve(t, s)
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.SendLogs(t.Context(), cred, "s1", pr) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("SendLogs still waits for a log that nobody watches")
	}
	_ = pr.Close()
	_ = pw.Close()
}

// An answer that is no answer of ours must not count as one.
func TestAStrangerAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"a page":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"too much":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2*protocol.MaxBody)) },
		"nothing":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"a proxy's 401": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"a broken answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("{"))
		},
	} {
		srv := httptest.NewServer(h)
		_, err := dial(t, httpclient.Options{Address: srv.URL}).Heartbeat(t.Context(), cred, protocol.Heartbeat{})
		if err == nil || errors.Is(err, protocol.ErrUnauthorized) || errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer srv.Close()
	if _, err := dial(t, httpclient.Options{Address: srv.URL}).Join(t.Context(), protocol.JoinRequest{}); err == nil {
		t.Error("a join that brought no credential is no join")
	}
}
