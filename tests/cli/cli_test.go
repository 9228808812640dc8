// Package cli runs the binary as an operator does.
package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is built by `make build`.
const binary = "../../bin/zoomies"

// patience is how long a test waits for what must happen.
const patience = time.Minute

func TestMain(m *testing.M) {
	if _, err := os.Stat(binary); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the command's tests (run `make build` first):", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run runs one command to its end.
func run(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// settings of a controller that needs nothing of the machine.
func settings(dir string) []string {
	return []string{"ZOOMIES_DATA_DIR=" + dir, "ZOOMIES_LISTEN=127.0.0.1:0", "ZOOMIES_AGENT_EMBEDDED=false", "ZOOMIES_LOG_FORMAT=json"}
}

// service is a controller that runs.
type service struct {
	cmd  *exec.Cmd
	url  string
	mu   sync.Mutex
	log  bytes.Buffer
	done chan error
}

func (s *service) logs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// startController starts one and waits until it listens.
func startController(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"controller"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &service{cmd: cmd, done: make(chan error, 1)}
	listening := make(chan string, 1)
	go func() {
		for in := bufio.NewScanner(pipe); in.Scan(); {
			s.mu.Lock()
			s.log.WriteString(in.Text() + "\n")
			s.mu.Unlock()
			var line struct{ Msg, Address string }
			if json.Unmarshal(in.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		s.done <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	select {
	case at := <-listening:
		s.url = "http://" + at
	case err := <-s.done:
		t.Fatalf("the controller ended: %v\n%s", err, s.logs())
	case <-time.After(patience):
		t.Fatalf("the controller does not listen:\n%s", s.logs())
	}
	return s
}

func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.done:
		if err != nil {
			t.Fatalf("the controller did not end well: %v\n%s", err, s.logs())
		}
	case <-time.After(patience):
		t.Fatal("the controller does not end")
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestControllerServesHealthAndMetrics(t *testing.T) {
	t.Parallel()
	s := startController(t, append(settings(t.TempDir()), "ZOOMIES_METRICS_PUBLIC=true"))
	for path, want := range map[string]string{"/healthz": `"status":"ok"`, "/readyz": `"status":"ready"`, "/metrics": "zoomies_reconcile_seconds"} {
		if code, body := get(t, s.url+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s, want 200 with %s", path, code, body, want)
		}
	}
	if code, _ := get(t, s.url+"/api/v1/agent/tasks"); code != http.StatusUnauthorized {
		t.Errorf("a poll without a credential: %d, want 401", code)
	}
	s.stop(t)
	private := startController(t, settings(t.TempDir()))
	if code, _ := get(t, private.url+"/metrics"); code != http.StatusUnauthorized {
		t.Errorf("the metrics of a fleet that did not say so are public: %d", code)
	}
	private.stop(t)
}

func TestSecondControllerIsRefusedAndToldWhoHoldsTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startController(t, settings(dir))
	_, errs, code := run(t, settings(dir), "controller")
	if code == 0 || !strings.Contains(errs, fmt.Sprint(first.cmd.Process.Pid)) || !strings.Contains(errs, "--takeover") {
		t.Fatalf("a second controller: exit %d, want a refusal that names process %d and --takeover:\n%s", code, first.cmd.Process.Pid, errs)
	}
	// A kill leaves nothing to clean up: the next one starts at once.
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-first.done; err == nil {
		t.Error("a killed controller ended well")
	}
	startController(t, settings(dir)).stop(t)
}

func TestTakeoverRaisesLeaseLostOnTheOther(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease renewal")
	}
	t.Parallel()
	dir := t.TempDir()
	first := startController(t, settings(dir))
	second := startController(t, settings(dir), "--takeover")
	deadline := time.Now().Add(patience)
	for {
		code, body := get(t, first.url+"/readyz")
		if code == http.StatusServiceUnavailable && strings.Contains(body, "controller.lease_lost") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the first controller does not say that it lost its lease: %d %s", code, body)
		}
		<-time.After(200 * time.Millisecond)
	}
	second.stop(t)
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startController(t, settings(dir))
	_, errs, code := run(t, settings(dir), "keys", "rotate")
	if code == 0 || !strings.Contains(errs, "stop it first") {
		t.Fatalf("a rotation under a running controller: exit %d, want a refusal:\n%s", code, errs)
	}
	s.stop(t)
	file := filepath.Join(dir, "zoomies.keys")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, settings(dir), "keys", "rotate")
	if code != 0 || !strings.Contains(out, "new key") {
		t.Fatalf("keys rotate: exit %d\n%s%s", code, out, errs)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, after) {
		t.Error("the key file did not change")
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key file's mode is %v (%v), want 0600", st.Mode(), err)
	}
	startController(t, settings(dir)).stop(t)
}

func TestBadSettingsStartNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "zoomies.yaml")
	if err := os.WriteFile(file, []byte("agent:\n  capasity: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, code := run(t, settings(dir), "controller", "--config", file)
	if code == 0 || !strings.Contains(errs, "agent.capacity") || !strings.Contains(errs, ":2") {
		t.Errorf("a misspelt setting: exit %d, want the line and what was meant:\n%s", code, errs)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("bad settings left something behind: %v", err)
	}
}

func TestDangerousSettingsAreNamed(t *testing.T) {
	t.Parallel()
	env := append(settings(t.TempDir()), "ZOOMIES_GITHUB_POLL_FALLBACK=false")
	s := startController(t, env)
	s.stop(t)
	if n := strings.Count(s.logs(), "fallback poller is off"); n != 1 {
		t.Errorf("the finding is printed %d times, want once:\n%s", n, s.logs())
	}
}

// One command on one machine is a fleet: the controller's own agent joins it, with a Podman service of its own where none runs.
func TestControllerRunsAnAgentOfItsOwn(t *testing.T) {
	t.Parallel()
	s := startController(t, append(settings(t.TempDir()), "ZOOMIES_AGENT_EMBEDDED=true", "ZOOMIES_SCHEDULER_TICK=1s", "ZOOMIES_METRICS_PUBLIC=true"))
	deadline := time.Now().Add(patience)
	for {
		if _, body := get(t, s.url+"/metrics"); strings.Contains(body, `zoomies_hosts{condition="healthy"} 1`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no healthy host:\n%s", s.logs())
		}
		<-time.After(200 * time.Millisecond)
	}
	s.stop(t)
	if strings.Contains(s.logs(), "zoojoin_") || strings.Contains(s.logs(), "zooagent_") {
		t.Error("a token is in the log")
	}
}

// A token is made on the controller's machine by its owner, for one host, and only its hash stays.
func TestJoinToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, errs, code := run(t, settings(dir), "join-token", "--host", "builder"); code == 0 || !strings.Contains(errs, "no controller runs here") {
		t.Errorf("without a controller: exit %d: %s", code, errs)
	}
	s := startController(t, settings(dir))
	out, errs, code := run(t, settings(dir), "join-token", "--host", "builder", "--ttl", "10m")
	token := strings.TrimSpace(out)
	if code != 0 || !strings.HasPrefix(token, "zoojoin_") || strings.ContainsAny(token, " \n") {
		t.Fatalf("join-token: exit %d, %q, %s", code, out, errs)
	}
	if st, err := os.Stat(filepath.Join(dir, "local.sock")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", st, err)
	}
	for _, bad := range [][]string{{"join-token"}, {"join-token", "--host", ""}, {"join-token", "--host", "h", "--ttl", "48h"}, {"join-token", "--host", "h", "--ttl", "-1s"}} {
		if out, _, code := run(t, settings(dir), bad...); code == 0 || strings.Contains(out, "zoojoin_") {
			t.Errorf("%v: exit %d: %s", bad, code, out)
		}
	}
	s.stop(t)
	if strings.Contains(s.logs(), token) {
		t.Error("the token is in the controller's log")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "zoomies.db"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(token)) {
		t.Error("the token itself is in the database")
	}
}

// A join token is a secret: it comes from the environment or a file, and there is no flag for it.
func TestAgentWantsATokenAndNeverOnItsCommandLine(t *testing.T) {
	t.Parallel()
	help, _, _ := run(t, nil, "agent", "--help")
	if strings.Contains(help, "--token ") || !strings.Contains(help, "ZOOMIES_JOIN_TOKEN") {
		t.Errorf("the help offers a token flag, or does not say where the token comes from:\n%s", help)
	}
	_, errs, code := run(t, nil, "agent", "--controller", "http://203.0.113.1:1", "--data-dir", t.TempDir())
	if code == 0 || !strings.Contains(errs, "https") {
		t.Errorf("plain HTTP to another machine: exit %d, want a refusal:\n%s", code, errs)
	}
}

func TestDemoSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, errs, code := run(t, nil, "demo", "--image", filepath.Join(t.TempDir(), "none.tar"), "--exit")
	if code == 0 || !strings.Contains(errs, "make build") {
		t.Errorf("a demo without its image: exit %d, want a hint:\n%s", code, errs)
	}
}

// The last line of `demo --json` is the report that the README and the benchmarks rely on.
func TestDemoReport(t *testing.T) {
	t.Parallel()
	out, errs, code := run(t, nil, "demo", "--jobs", "4", "--exit", "--json")
	if code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", code, out, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var r map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("the last line is no JSON object: %v: %s", err, out)
	}
	for key, want := range map[string]float64{"jobs": 4, "completed": 4, "failed": 0, "runners_left": 0, "containers_left": 0, "registrations_left": 0} {
		if r[key] != want {
			t.Errorf("%s is %v, want %v", key, r[key], want)
		}
	}
	stages, _ := r["stages_ms"].(map[string]any)
	for _, s := range []string{"queued_to_task", "task_to_container", "container_to_registered", "queued_to_running"} {
		st, _ := stages[s].(map[string]any)
		if p50, _ := st["p50"].(float64); p50 <= 0 {
			t.Errorf("stage %s was not measured: %v", s, stages[s])
		}
	}
	plain, _ := r["podman_run_ms"].(map[string]any)
	if p50, _ := plain["p50"].(float64); p50 <= 0 {
		t.Errorf("plain podman run was not measured: %v", plain)
	}
}
