package image

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// engine is a Podman with storage of its own.
type engine struct {
	program string
	global  []string
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "podman") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{program: need(t, "podman"), global: []string{
		"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"),
		"--cgroup-manager", "cgroupfs", "--events-backend", "file",
	}}
	if runc, err := exec.LookPath("runc"); err == nil { // crun refuses hybrid cgroups
		e.global = append(e.global, "--runtime", runc)
	}
	t.Cleanup(func() {
		_, _, _ = e.try("rm", "--all", "--force")
		_, _, _ = e.try("rmi", "--all", "--force")
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return e
}

// try runs podman with args and returns its output and exit code.
func (e *engine) try(args ...string) (out string, code int, err error) {
	cmd := exec.Command(e.program, append(append([]string{}, e.global...), args...)...)
	cmd.Env = append(os.Environ(), "PODMAN_IGNORE_CGROUPSV1_WARNING=1")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return string(text), -1, err
	}
	return string(text), cmd.ProcessState.ExitCode(), nil
}

func (e *engine) load(t *testing.T, archive []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code, err := e.try("load", "--input", file); err != nil || code != 0 || !strings.Contains(out, DefaultRef) {
		t.Fatalf("podman load: exit code %d, %v\n%s", code, err, out)
	}
}

// The image is what the demo needs: it loads under its name, its first line is the mark that
// latency is measured to, the runner runs as its own user below the entrypoint as process 1,
// and the exit code of the container is the runner's.
func TestImageRunsInPodman(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.load(t, buildImage(t, options))
	member := base64.StdEncoding.EncodeToString([]byte("{}"))
	jit := base64.StdEncoding.EncodeToString([]byte(
		`{".runner":"` + member + `",".credentials":"` + member + `",".credentials_rsaparams":"` + member + `"}`))
	out, code, err := e.try("run", "--rm", "--network", "none", "--ulimit", "nofile=20000", "--ulimit", "nproc=4096",
		"--cap-drop", "all", "--security-opt", "no-new-privileges", "--env", "ZOOMIES_JITCONFIG="+jit, DefaultRef)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	stamp, ok := strings.CutPrefix(lines[0], "zoomies-entrypoint: started ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); !ok || err != nil {
		t.Fatalf("first line %q\n%s", lines[0], out)
	}
	for _, want := range []string{
		"runner: uid 1001 in /home/runner with JIT configuration, parent 1",
		"sh: runner /tmp",
		"sh: env",
		"environ': Permission denied", // the container's own variables are closed to the job
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if code != 7 || t.Failed() {
		t.Fatalf("exit code %d, output\n%s", code, out)
	}
}
