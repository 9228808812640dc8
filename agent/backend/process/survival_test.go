package process_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/process"
)

// TestHelperAgent is another agent in a process of its own, which TestWorkloadOutlivesAKilledAgent kills.
func TestHelperAgent(t *testing.T) {
	dir := os.Getenv("ZOOMIES_TEST_AGENT_DIR")
	if dir == "" {
		t.Skip("it is a part of another test")
	}
	w, err := open(t, dir, "hst_1").Create(t.Context(), backend.Spec{
		Name: "a", RunnerID: "run_1", Command: []string{"sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo done; exit 9"},
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("created=%s\n", w.ID)
	<-t.Context().Done() // until it is killed
	select {}
}

func TestWorkloadOutlivesAKilledAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := exec.Command(os.Args[0], "-test.run=^TestHelperAgent$", "-test.v")
	agent.Env = append(os.Environ(), "ZOOMIES_TEST_AGENT_DIR="+dir)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	id := ""
	for text, buf := "", make([]byte, 512); id == ""; {
		n, err := out.Read(buf)
		text += string(buf[:n])
		if _, rest, ok := strings.Cut(text, "created="); ok && strings.Contains(rest, "\n") {
			id, _, _ = strings.Cut(rest, "\n")
		} else if err != nil {
			t.Fatalf("the agent said %q: %v", text, err)
		}
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	b := open(t, dir, "hst_1")
	if w, err := b.Inspect(t.Context(), id); err != nil || w.Phase != backend.Running || w.RunnerID != "run_1" {
		t.Fatalf("after the agent was killed: %+v, %v", w, err)
	}
	if err := os.WriteFile(filepath.Join(dir, id, "work", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := ended(t, b, id); w.ExitCode != 9 || w.EndedAt.IsZero() {
		t.Errorf("it ended as %+v", w)
	}
	log, err := b.Logs(t.Context(), id, backend.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(log); string(text) != "done\n" || err != nil {
		t.Errorf("its log is %q, %v", text, err)
	}
	if err := b.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A shim that is killed leaves the workload findable, stoppable and removable.
func TestKilledShimIsNotedAndCleared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, "hst_1")
	w, err := b.Create(t.Context(), backend.Spec{Name: "a", RunnerID: "run_1", Command: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(process.ShimPID(t, b, w.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Inspect(t.Context(), w.ID); err != nil || got.Phase != backend.Running {
		t.Errorf("its process lives and it is %+v, %v", got, err)
	}
	if err := b.Stop(t.Context(), w.ID, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, b, w.ID); got.ExitCode != 137 {
		t.Errorf("nobody saw its end and it is %+v", got)
	}
	if err := b.Remove(t.Context(), w.ID); err != nil {
		t.Error(err)
	}
}

// What a job leaves running ends with the job, in whatever session it hides.
func TestBackgroundProcessesEndWithTheJob(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	w, err := b.Create(t.Context(), backend.Spec{Name: "a", RunnerID: "run_1", Command: []string{"sh", "-c", "setsid sleep 4711 & setsid sleep 4711 & sleep 0.3"}})
	if err != nil {
		t.Fatal(err)
	}
	ended(t, b, w.ID)
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if data, err := os.ReadFile(path); err == nil && bytes.Equal(data, []byte("sleep\x004711\x00")) {
			t.Errorf("%s still runs", path)
		}
	}
	if err := b.Remove(t.Context(), w.ID); err != nil {
		t.Error(err)
	}
}

// A runner installation is copied, symbolic links and all, and directories that a job locked
// are removed all the same.
func TestImageIsADirectoryOfARunner(t *testing.T) {
	t.Parallel()
	image, dir := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\n./link; mkdir -p locked/deep; touch locked/deep/x; chmod 500 locked/deep locked; pwd\n"
	if err := os.WriteFile(filepath.Join(image, "run.sh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "tool"), []byte("#!/bin/sh\necho linked\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("tool", filepath.Join(image, "link")); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, "")
	w, err := b.Create(t.Context(), backend.Spec{Name: "a", RunnerID: "run_1", Image: image})
	if err != nil {
		t.Fatal(err)
	}
	ended(t, b, w.ID)
	log, err := b.Logs(t.Context(), w.ID, backend.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(log); string(text) != "linked\n"+filepath.Join(dir, w.ID, "work")+"\n" {
		t.Errorf("it said %q", text)
	}
	if err := b.Remove(t.Context(), w.ID); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 1 { // the lock file
		t.Errorf("left: %v", left)
	}
}

func TestWhatAProcessCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	for name, spec := range map[string]backend.Spec{
		"sidecar":   {Daemon: &backend.Daemon{Kind: backend.DaemonDocker, Image: "x"}},
		"read-only": {ReadOnly: true},
		"network":   {Network: "none"},
	} {
		spec.Name, spec.RunnerID, spec.Command = "a", "run_1", []string{"true"}
		if _, err := b.Create(t.Context(), spec); err == nil {
			t.Errorf("%s is ignored", name)
		}
	}
}

func ended(t *testing.T, b *process.Backend, id string) backend.Workload {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := process.Await(ctx, b, id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
