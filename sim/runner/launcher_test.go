package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/sim/github"
)

// quick are waits for tests.
func quick() timing {
	return timing{
		sessionRetry: 5 * time.Millisecond, conflictLimit: 40 * time.Millisecond, pollRetry: 2 * time.Millisecond,
		interrupt: 50 * time.Millisecond, terminate: 50 * time.Millisecond,
	}
}

// inProcess is a launcher in this process, with quick waits.
func inProcess(t *testing.T, args ...string) (*launcher, *lockedBuffer) {
	t.Helper()
	out := &lockedBuffer{hit: make(chan struct{}, 1)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the runner said:\n%s", out)
		}
	})
	return &launcher{args: args, stdout: out, stderr: out, dir: t.TempDir(), timing: quick()}, out
}

func says(t *testing.T, out *lockedBuffer, text string) {
	t.Helper()
	if !strings.Contains(out.String(), text) {
		t.Errorf("the runner does not say %q", text)
	}
}

// blob is a JIT configuration for any server.
func blob(t *testing.T, server string) string {
	t.Helper()
	files := map[string]string{}
	for name, v := range map[string]any{
		".runner":      map[string]string{"agentId": "7", "agentName": "one", "serverUrl": server, "workFolder": "_work"},
		".credentials": map[string]any{"scheme": "OAuthAccessToken", "data": map[string]string{"token": "secret"}},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = base64.StdEncoding.EncodeToString(b)
	}
	b, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func TestExitCodesBeforeASession(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"version":            {[]string{"--version"}, 0, version},
		"not configured":     {nil, exitTerminated, "Runner is not configured."},
		"unknown argument":   {[]string{"--shiny"}, exitTerminated, "--shiny"},
		"not base64":         {[]string{"--jitconfig", "###"}, exitTerminated, "cannot decode"},
		"quoted":             {[]string{"--jitconfig", `"` + blob(t, "http://127.0.0.1:1") + `"`}, exitTerminated, "cannot decode"},
		"not JSON":           {[]string{"--jitconfig=" + base64.StdEncoding.EncodeToString([]byte("x"))}, exitTerminated, "cannot parse"},
		"no server":          {[]string{"--jitconfig", blob(t, "")}, exitTerminated, "names no server"},
		"a path, not a file": {[]string{"--jitconfig", base64.StdEncoding.EncodeToString([]byte(`{"../x":""}`))}, exitTerminated, "not a file name"},
	} {
		l, out := inProcess(t, tt.args...)
		if code := l.listen(t.Context()); code != tt.code {
			t.Errorf("%s: exit code %d, want %d", name, code, tt.code)
		}
		says(t, out, tt.says)
	}
}

func TestDeletedRegistration(t *testing.T) {
	t.Parallel()
	s := world(t)
	id, jit, err := s.Register("acme", "one", "zoomies")
	if err != nil {
		t.Fatal(err)
	}
	s.RemoveRunner(id)
	l, out := inProcess(t, "--jitconfig", jit)
	if code := l.listen(t.Context()); code != exitTerminated {
		t.Errorf("exit code %d", code)
	}
	says(t, out, "The runner registration has been deleted from the server, please re-configure.")
	l, out = inProcess(t, "--jitconfig", jit)
	if code := l.script(t.Context()); code != 0 { // run.sh hides it
		t.Errorf("run.sh's exit code %d", code)
	}
	says(t, out, "Runner listener exit with terminated error, stop the service, no retry needed.")
}

// TestRemovedWhileIdle: GitHub deletes an idle registration and the runner leaves by itself (field report A24).
func TestRemovedWhileIdle(t *testing.T) {
	t.Parallel()
	s := world(t)
	id, jit, err := s.Register("acme", "one", "zoomies")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "", jit)
	p.sees(t, "Listening for Jobs")
	s.RemoveRunner(id)
	p.exits(t, 0)
	p.sees(t, "The runner no longer exists on the server. Cleaning up local configuration.")
	if _, err := os.Stat(filepath.Join(p.dir, ".runner")); !os.IsNotExist(err) {
		t.Errorf("the configuration is still there: %v", err)
	}
}

// TestSessionConflict: a registration that is in use is waited for, and in the end given up (field report A17).
func TestSessionConflict(t *testing.T) {
	t.Parallel()
	s := world(t)
	jit := register(t, s, "one")
	first := start(t, "", jit)
	first.sees(t, "Listening for Jobs")
	l, out := inProcess(t, "--jitconfig", jit)
	if code := l.listen(t.Context()); code != exitSessionConflict {
		t.Errorf("exit code %d", code)
	}
	says(t, out, "A session for this runner already exists.")
	says(t, out, "Stop retry on SessionConflictException")
}

func TestDeprecatedVersion(t *testing.T) { // field report A25; not parallel: it sets the environment
	s := world(t)
	s.DeprecateRunners(true)
	for env, code := range map[string]int{"": exitTerminated, "1": exitDeprecated} {
		t.Setenv(deprecatedVariable, env)
		l, out := inProcess(t, "--jitconfig", register(t, s, "one"+env))
		if got := l.listen(t.Context()); got != code {
			t.Errorf("%s=%q: exit code %d, want %d", deprecatedVariable, env, got, code)
		}
		says(t, out, "is deprecated and cannot receive messages")
		l, _ = inProcess(t, "--jitconfig", register(t, s, "two"+env))
		if got := l.script(t.Context()); got != map[string]int{"": 0, "1": exitDeprecated}[env] {
			t.Errorf("run.sh's exit code %d", got)
		}
	}
}

// TestReconnects: a server that fails for a while is asked again, at the session and at the poll.
func TestReconnects(t *testing.T) {
	t.Parallel()
	var sessions, polls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			if sessions.Add(1) < 3 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			_, _ = w.Write([]byte(`{"sessionId":"s"}`))
		case r.Method == http.MethodGet:
			switch polls.Add(1) {
			case 1:
				w.WriteHeader(http.StatusBadGateway)
			case 2:
				w.WriteHeader(http.StatusAccepted)
			case 3:
				w.WriteHeader(http.StatusGone) // the session expired: open another
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	}))
	defer srv.Close()
	l, out := inProcess(t, "--jitconfig", " "+blob(t, srv.URL)+"\n")
	if code := l.listen(t.Context()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(out.String(), "Retrying until reconnected."); n != 2 {
		t.Errorf("%d connect errors, want one for each time of trouble", n)
	}
	if n := strings.Count(out.String(), "Runner reconnected."); n != 2 {
		t.Errorf("%d reconnections", n)
	}
	if sessions.Load() != 4 {
		t.Errorf("%d attempts at a session", sessions.Load())
	}
}

func TestStopWhileConnecting(t *testing.T) {
	t.Parallel()
	l, _ := inProcess(t, "--jitconfig", blob(t, "http://127.0.0.1:1"))
	l.timing.sessionRetry = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if code := l.listen(ctx); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestStubbornStep: a step that ignores SIGINT and SIGTERM is killed, with what it started.
func TestStubbornStep(t *testing.T) {
	t.Parallel()
	s := world(t)
	l, _ := inProcess(t, "--jitconfig", register(t, s, "one"))
	id := queue(s, "trap '' INT TERM; echo started; while :; do sleep 0.1; done")
	code := make(chan int)
	go func() { code <- l.listen(t.Context()) }()
	logged(t, s, id, "started")
	s.CancelJob(id)
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
	if j := s.Job(id); j.Conclusion != github.ConclusionCancelled {
		t.Errorf("job is %+v", j)
	}
}

// logged waits until a job's log says something.
func logged(t *testing.T, s *github.Server, id int64, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(s.Job(id).Log, text+"\n") },
		func() { t.Fatalf("the log never says %q:\n%s", text, s.Job(id).Log) })
}

// eventually looks until something is so.
func eventually(t *testing.T, so func() bool, never func()) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline.C:
			never()
			return
		}
	}
}

// TestOrphansEndWithTheJob: what a step leaves in the background serves the next step and ends with the job.
func TestOrphansEndWithTheJob(t *testing.T) {
	t.Parallel()
	s := world(t)
	l, _ := inProcess(t, "--jitconfig", register(t, s, "one"))
	id := queue(s, "sleep 300 >/dev/null 2>&1 & echo $! >pid", "kill -0 $(cat pid)")
	if code := l.listen(t.Context()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	j := s.Job(id)
	if j.Conclusion != github.ConclusionSuccess || !strings.Contains(j.Log, "Terminate orphan process: pid (") {
		t.Errorf("%s:\n%s", j.Conclusion, j.Log)
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "_work", "app", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	dead := func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil
	}
	eventually(t, dead, func() { t.Fatalf("process %d is still there", pid) })
}

func TestLongLogsArriveWhole(t *testing.T) {
	t.Parallel()
	s := world(t)
	l, _ := inProcess(t, "--jitconfig", register(t, s, "one"))
	id := queue(s, "i=0; while [ $i -lt 20000 ]; do echo \"line $i is a line of some length to fill a log with\"; i=$((i+1)); done")
	if code := l.listen(t.Context()); code != 0 {
		t.Errorf("exit code %d", code)
	}
	log := s.Job(id).Log
	if n := strings.Count(log, "is a line of some length to fill a log with\n"); n != 20000 || !strings.HasSuffix(log, "line 19999 is a line of some length to fill a log with\n") {
		t.Errorf("%d lines arrived", n)
	}
}

// TestScriptName: called run.sh, the program exits as run.sh does.
func TestScriptName(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "run.sh", register(t, s, "one"))
	wait(t, s, queue(s, "exit 3"), github.StatusCompleted)
	p.exits(t, 0)
	p.sees(t, "Runner listener exit with 0 return code, stop the service, no retry needed.\nExiting runner...")
}

func FuzzUnpackJIT(f *testing.F) {
	f.Add("e30=")
	f.Add(" eyIucnVubmVyIjoiZTMwPSJ9\n")
	f.Add(`"e30="`)
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"../../etc/passwd":"eA=="}`)))
	f.Fuzz(func(t *testing.T, s string) {
		files, err := unpackJIT(s)
		if err != nil {
			return
		}
		for name := range files {
			if strings.ContainsRune(name, '/') || name == ".." || name == "." || name == "" {
				t.Errorf("%q would be written", name)
			}
		}
		_, _ = parseConfig(files[".runner"], files[".credentials"])
	})
}
