package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
)

// remoteAgent is `zoomies agent` as a host's owner runs it.
func remoteAgent(t *testing.T, f *demo.Fleet, dir string, extra ...string) (stop func()) {
	t.Helper()
	args := append([]string{"agent", "--controller", f.URL(), "--name", "remote", "--data-dir", dir, "--podman-socket", engine.Socket(), "--capacity", "2"}, extra...)
	cmd := exec.Command("../../bin/zoomies", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start the agent (run `make build` first): %v", err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("the agent did not end well: %v\n%s", err, out.String())
		}
		if strings.Contains(out.String(), "zoojoin_") || strings.Contains(out.String(), "zooagent_") {
			t.Error("a token is in the agent's log")
		}
	}
	t.Cleanup(stop)
	return stop
}

// A host joins over HTTP with a token that works once, runs a job, survives a restart in the middle of another, and cannot be
// joined again with the same token.
func TestRemoteAgent(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *demo.Options) { o.NoAgent = true })
	token, err := f.Controller().NewJoinToken(t.Context(), "remote", false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stop := remoteAgent(t, f, dir, "--token-file", file)
	finish(t, f.GitHub, f.GitHub.QueueJob(job("first", "echo over the wire")), "success")

	id := f.GitHub.QueueJob(job("long", "sleep 3; echo survived"))
	if _, err := f.GitHub.WaitJob(t.Context(), id, "in_progress"); err != nil {
		t.Fatal(err)
	}
	stop()
	remoteAgent(t, f, dir) // no token: it knows its host
	finish(t, f.GitHub, id, "success")

	b := podman.New(podman.Options{Socket: engine.Socket(), HostID: hostOf(t, dir)})
	eventually(t, "nothing is left on the host", func() bool {
		ws, err := b.List(t.Context())
		return err == nil && len(ws) == 0 && len(f.GitHub.Runners()) == 0
	})
	if n := len(runners(t, f.Controller().Store)); n != 2 {
		t.Errorf("%d runners for two jobs", n)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	thief := exec.CommandContext(ctx, "../../bin/zoomies", "agent", "--controller", f.URL(), "--name", "remote", "--data-dir", t.TempDir(),
		"--podman-socket", engine.Socket(), "--token-file", file)
	out, err := thief.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Errorf("a spent token was not refused: %v\n%s", err, out)
	}
}
