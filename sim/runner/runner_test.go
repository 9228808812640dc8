package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/sim/github"
)

// binary is the stand-in, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runner")
	if err == nil {
		binary = filepath.Join(dir, "runner")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out []byte
		if out, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("cannot build the stand-in: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

const repo = "acme/app"

func world(t *testing.T) *github.Server {
	t.Helper()
	s, err := github.New(github.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.AddRepository(s.AddInstallation("acme", "Organization"), repo)
	return s
}

// process is a stand-in that runs.
type process struct {
	cmd  *exec.Cmd
	dir  string
	out  *lockedBuffer
	done chan struct{}
}

type lockedBuffer struct {
	mu  sync.Mutex
	b   bytes.Buffer
	hit chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Write(p)
	select {
	case b.hit <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, name, jit string, env ...string) *process {
	t.Helper()
	dir := t.TempDir()
	path := binary
	if name != "" {
		path = filepath.Join(dir, name)
		if err := os.Link(binary, path); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{cmd: exec.Command(path, "run"), dir: dir, out: &lockedBuffer{hit: make(chan struct{}, 1)}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.out
	p.cmd.Env = append(os.Environ(), append(env, jitVariable+"="+jit)...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("the runner said:\n%s", p.out)
		}
	})
	return p
}

func (p *process) sees(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !strings.Contains(p.out.String(), text) {
		select {
		case <-p.out.hit:
		case <-p.done:
			if !strings.Contains(p.out.String(), text) {
				t.Fatalf("the runner ended without saying %q", text)
			}
		case <-deadline:
			t.Fatalf("the runner does not say %q", text)
		}
	}
}

func (p *process) exits(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the runner does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, want %d", got, code)
	}
}

func register(t *testing.T, s *github.Server, name string) string {
	t.Helper()
	_, jit, err := s.Register("acme", name, "zoomies")
	if err != nil {
		t.Fatal(err)
	}
	return jit
}

func queue(s *github.Server, run ...string) int64 {
	spec := github.JobSpec{Repository: repo, Name: "build", Labels: []string{"self-hosted", "zoomies"}}
	for _, r := range run {
		spec.Steps = append(spec.Steps, github.Step{Run: r})
	}
	return s.QueueJob(spec)
}

func wait(t *testing.T, s *github.Server, id int64, status string) github.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	j, err := s.WaitJob(ctx, id, status)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestTheBinaryIsStatic: it has to run in an image that has nothing but a shell.
func TestTheBinaryIsStatic(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the stand-in needs a dynamic linker")
		}
	}
}

func TestOneJobAndGone(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "", register(t, s, "one"))
	p.sees(t, "√ Connected to GitHub")
	p.sees(t, "Z: Listening for Jobs")
	id := queue(s, "echo hello from $RUNNER_NAME; pwd; env", "echo second >&2")
	j := wait(t, s, id, github.StatusCompleted)
	p.exits(t, 0)
	p.sees(t, ": Running job: build")
	p.sees(t, ": Job build completed with result: Succeeded")
	if j.Conclusion != github.ConclusionSuccess || j.RunnerName != "one" {
		t.Errorf("job is %+v", j)
	}
	for _, want := range []string{"hello from one", "/_work/app\n", "second\n", "GITHUB_REPOSITORY=acme/app"} {
		if !strings.Contains(j.Log, want) {
			t.Errorf("the log lacks %q:\n%s", want, j.Log)
		}
	}
	if strings.Contains(j.Log, jitVariable) {
		t.Error("a step sees the JIT configuration")
	}
	if n := len(s.Runners()); n != 0 {
		t.Errorf("%d registrations left after an ephemeral runner's job", n)
	}
	if _, err := os.Stat(filepath.Join(p.dir, ".credentials")); !os.IsNotExist(err) {
		t.Errorf("the credentials are still there: %v", err)
	}
}

func TestFailingStepSkipsTheRest(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "", register(t, s, "one"))
	j := wait(t, s, queue(s, "false; echo never", "echo skipped"), github.StatusCompleted)
	p.exits(t, 0)
	if j.Conclusion != github.ConclusionFailure || strings.Contains(j.Log, "\nnever") || strings.Contains(j.Log, "\nskipped") ||
		!strings.Contains(j.Log, "##[error]Process completed with exit code 1.") {
		t.Errorf("conclusion %s, log:\n%s", j.Conclusion, j.Log)
	}
	p.sees(t, "completed with result: Failed")
}

func TestCancelKillsTheProcessGroup(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "", register(t, s, "one"))
	id := queue(s, "sleep 300 & echo started; wait")
	wait(t, s, id, github.StatusInProgress)
	p.sees(t, "started")
	s.CancelJob(id)
	j := wait(t, s, id, github.StatusCompleted)
	p.exits(t, 0)
	if j.Conclusion != github.ConclusionCancelled || !strings.Contains(j.Log, "The operation was canceled.") {
		t.Errorf("conclusion %s, log:\n%s", j.Conclusion, j.Log)
	}
	p.sees(t, "completed with result: Canceled")
}

func TestSignalWhileIdleDeletesTheSession(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "", register(t, s, "one"))
	p.sees(t, "Listening for Jobs")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.exits(t, 0)
	rs := s.Runners()
	if len(rs) != 1 || rs[0].Online { // A23: a JIT runner cannot deregister itself
		t.Errorf("registrations: %+v; want one, offline", rs)
	}
}

func TestSignalWhileBusyCancelsTheJob(t *testing.T) {
	t.Parallel()
	s := world(t)
	p := start(t, "", register(t, s, "one"))
	id := queue(s, "echo started; sleep 300")
	p.sees(t, "started")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	j := wait(t, s, id, github.StatusCompleted)
	p.exits(t, 0)
	if j.Conclusion != github.ConclusionCancelled || !strings.Contains(j.Log, "shutdown signal") {
		t.Errorf("conclusion %s, log:\n%s", j.Conclusion, j.Log)
	}
}
