package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// daemonFile is built by `make test`.
const daemonFile = "../../bin/podman-daemon.tar"

// A pool with a daemon gives each job a Podman of its own, which shares the job's work folder, and which goes with it.
func TestPoolWithAPodmanDaemon(t *testing.T) {
	t.Parallel()
	if err := demo.LoadImage(t.Context(), engine.Socket(), daemonFile); err != nil {
		t.Fatalf("run `make bin/podman-daemon.tar` first: %v", err)
	}
	f := start(t, func(o *demo.Options) {
		o.Pool = func(p *store.Pool) { p.Daemon, p.CPUs, p.MemoryMB = "podman", 0, 0 }
	})
	// The job itself proves that the daemon answered: its runner exits before it takes a job otherwise.
	id := f.GitHub.QueueJob(job("builder", "echo $DOCKER_HOST; pwd; echo from the job > shared; while [ ! -f done ]; do sleep 0.2; done; cat done"))
	if _, err := f.GitHub.WaitJob(t.Context(), id, "in_progress"); err != nil {
		t.Fatal(err)
	}
	sidecar := ""
	eventually(t, "the job has a sidecar", func() bool {
		ws, err := f.Agent().Backend().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			if w.Role == backend.RoleDaemon && w.Phase == backend.Running {
				sidecar = w.ID
			}
		}
		return sidecar != ""
	})
	inside := func(script string) string {
		t.Helper()
		args := append(engine.Args(), "exec", sidecar, "sh", "-c", script)
		cmd := exec.CommandContext(t.Context(), "podman", args...)
		cmd.Env = engine.Env()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("in the sidecar, %s: %v: %s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	eventually(t, "the job has begun to write", func() bool {
		return inside("find "+backend.WorkDir+" -name shared") != ""
	})
	shared := inside("find " + backend.WorkDir + " -name shared")
	if got := inside("cat " + shared); got != "from the job" {
		t.Errorf("the daemon reads %q in the job's file", got)
	}
	if got := inside("podman --url unix://" + backend.DaemonSocket + " --remote info --format '{{.Version.Version}}'"); got == "" {
		t.Error("the daemon does not say its version")
	}
	inside("echo from the daemon > " + strings.TrimSuffix(shared, "shared") + "done")
	j := finish(t, f.GitHub, id, "success")
	for _, want := range []string{"unix://" + backend.DaemonSocket, "from the daemon"} {
		if !strings.Contains(j.Log, want) {
			t.Errorf("the job's log lacks %q:\n%s", want, j.Log)
		}
	}
	// Sidecars are counted.
	nothingLeft(t, f)
	eventually(t, "the job's volumes are gone", func() bool { // a moment after the containers
		out, err := exec.CommandContext(t.Context(), "podman", append(engine.Args(), "volume", "ls", "-q")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(out), j.RunnerName)
	})
}
