package boot

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asEntrypoint makes this test's own program behave as the entrypoint, so that the tests
// below watch real processes, signals and exit codes.
const asEntrypoint = "BOOT_TEST_AS_ENTRYPOINT"

func TestMain(m *testing.M) {
	if os.Getenv(asEntrypoint) != "" {
		Announce(os.Stdout, time.Now())
		os.Exit(Run(os.Stdout, os.Environ()))
	}
	os.Exit(m.Run())
}

// scripts writes the runner's programs, shell scripts by name, and returns their directory.
func scripts(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range programs {
		install(t, strings.NewReader("#!/bin/sh\n"+body), filepath.Join(dir, name))
	}
	return dir
}

// install writes a program through another process: a file that this one had open for writing
// could be open in the fork of a parallel test, and its exec would fail with "text file busy".
func install(t *testing.T, from io.Reader, to string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `cat > "$0" && chmod 755 "$0"`, to)
	cmd.Stdin = from
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// entrypoint is the command of an entrypoint process whose runner lies in dir.
func entrypoint(t *testing.T, dir string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = dir
	cmd.Env = append([]string{asEntrypoint + "=1", "PATH=/usr/bin:/bin", EnvCommand + "=" + filepath.Join(dir, "run.sh")}, env...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// end runs cmd to its end and returns its exit code.
func end(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestFirstLineIsTheMark(t *testing.T) {
	t.Parallel()
	cmd, out := entrypoint(t, t.TempDir())
	end(t, cmd)
	line, _, _ := strings.Cut(out.String(), "\n")
	stamp, ok := strings.CutPrefix(line, "zoomies-entrypoint: started ")
	if !ok {
		t.Fatalf("first line %q", line)
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || at.Location() != time.UTC {
		t.Fatalf("%q is not a UTC time: %v", stamp, err)
	}
}

func TestExitCodeIsTheRunners(t *testing.T) {
	t.Parallel()
	jit := EnvJITConfig + "=" + testJIT(t)
	for name, tc := range map[string]struct {
		script string
		want   int
	}{
		"success":            {"exit 0", 0},
		"failure":            {"exit 1", 1},
		"version deprecated": {"exit 7", 7}, // field report A25
		"its own 78":         {"exit 78", 78},
		"killed":             {"kill -KILL $$", 137},
		"terminated":         {"kill -TERM $$", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, out := entrypoint(t, scripts(t, map[string]string{"run.sh": tc.script}), jit)
			if got := end(t, cmd); got != tc.want {
				t.Fatalf("exit code %d, want %d\n%s", got, tc.want, out)
			}
		})
	}
}

func TestRunnerThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	jit := EnvJITConfig + "=" + testJIT(t)
	missing, out := entrypoint(t, t.TempDir(), jit)
	if got := end(t, missing); got != ExitNoRunner {
		t.Errorf("missing: exit code %d\n%s", got, out)
	}
	dir := scripts(t, map[string]string{"run.sh": "exit 0"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	locked, out := entrypoint(t, dir, jit)
	if got := end(t, locked); got != ExitCannotRun {
		t.Errorf("not executable: exit code %d\n%s", got, out)
	}
}

// The secret reaches the runner's own input and nothing else: no argument, no output, no
// ZOOMIES_ variable, no other process's environment.
func TestSecretsReachOnlyTheRunnersInput(t *testing.T) {
	t.Parallel()
	dir := scripts(t, map[string]string{
		"run.sh": `env > run.env; tr '\0' '\n' < /proc/$$/cmdline > run.args; tr '\0' '\n' < /proc/$PPID/cmdline > parent.args`,
		"config.sh": `env > config.env; tr '\0' '\n' < /proc/$$/cmdline > config.args
printf '\357\273\277{"agentName":"zoomies-a-1"}' > .runner`,
	})
	jit := testJIT(t)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	cmd, out := entrypoint(t, dir, EnvJITConfig+"=\""+jit+"\"\n", EnvToken+"="+canary)
	if code := end(t, cmd); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if got := read("run.env"); strings.Count(got, jit) != 1 || !strings.Contains(got, "\nACTIONS_RUNNER_INPUT_JITCONFIG="+jit+"\n") && !strings.HasPrefix(got, "ACTIONS_RUNNER_INPUT_JITCONFIG="+jit+"\n") {
		t.Errorf("the runner's environment does not hold the JIT configuration exactly once")
	}
	for name, text := range map[string]string{"output": out.String(), "run.args": read("run.args"), "parent.args": read("parent.args")} {
		if strings.Contains(text, jit) || strings.Contains(text, canary) {
			t.Errorf("%s holds a secret", name)
		}
	}
	if got := read("run.env"); strings.Contains(got, canary) || strings.Contains(got, EnvJITConfig) {
		t.Errorf("the runner's environment holds a ZOOMIES_ secret")
	}

	// A runner that is not ephemeral: only config.sh has the token.
	cmd, out = entrypoint(t, dir, EnvURL+"=https://github.example/acme", EnvToken+"="+canary+"\n",
		EnvName+"=zoomies-a-1", EnvLabels+"=zoomies,linux", EnvGroup+"=Night shift")
	if code := end(t, cmd); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{"URL=https://github.example/acme", "TOKEN=" + canary, "NAME=zoomies-a-1",
		"LABELS=zoomies,linux", "RUNNERGROUP=Night shift", "UNATTENDED=true", "REPLACE=true"} {
		if !strings.Contains(read("config.env"), runnerInput+want+"\n") {
			t.Errorf("config.sh lacks %s", strings.Split(want, "=")[0])
		}
	}
	for _, name := range []string{"run.env", "run.args", "config.args"} {
		if strings.Contains(read(name), canary) {
			t.Errorf("%s holds the token", name)
		}
	}
	if strings.Contains(out.String(), canary) {
		t.Errorf("the output holds the token")
	}
}

func TestRegistrationHappensOnce(t *testing.T) {
	t.Parallel()
	reg := []string{EnvURL + "=https://github.example/acme", EnvToken + "=t", EnvName + "=zoomies-a-1"}
	for name, tc := range map[string]struct {
		runner, config string
		want           int
		output         string
	}{
		"fresh":             {"", "exit 0", 0, "RUN"},
		"container restart": {"\ufeff" + `{"agentName":"zoomies-a-1"}`, "exit 9", 0, "RUN"},
		"refused":           {"", "exit 3", 3, "registration ended with exit code 3"},
		// Field report A27: an identity baked into an image blocks every copy of it.
		"baked identity": {`{"agentName":"somebody"}`, "exit 0", 78, "another runner"},
		"damaged":        {`{`, "exit 0", 78, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := scripts(t, map[string]string{"run.sh": "echo RUN", "config.sh": tc.config})
			if tc.runner != "" {
				if err := os.WriteFile(filepath.Join(dir, ".runner"), []byte(tc.runner), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd, out := entrypoint(t, dir, reg...)
			if got := end(t, cmd); got != tc.want || !strings.Contains(out.String(), tc.output) {
				t.Fatalf("exit code %d, want %d\n%s", got, tc.want, out)
			}
			if tc.want != 0 && strings.Contains(out.String(), "RUN") {
				t.Fatal("the runner was started")
			}
		})
	}
}

func TestDaemonThatNeverAnswersKeepsTheListenerFromStarting(t *testing.T) {
	t.Parallel()
	cmd, out := entrypoint(t, scripts(t, map[string]string{"run.sh": "echo RUN"}),
		EnvJITConfig+"="+testJIT(t), EnvDaemon+"=docker", EnvWait+"=1", "DOCKER_HOST=unix:///nowhere/docker.sock")
	if got := end(t, cmd); got != ExitUnavailable {
		t.Fatalf("exit code %d\n%s", got, out)
	}
	if strings.Contains(out.String(), "RUN") || !strings.Contains(out.String(), "did not answer within 1s") {
		t.Fatalf("output\n%s", out)
	}
}

func TestImageWithoutClientIsAWarning(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "d.sock")
	serve(t, "unix", sock, ping)
	dir := scripts(t, map[string]string{"run.sh": "echo RUN"})
	cmd, out := entrypoint(t, dir, EnvJITConfig+"="+testJIT(t), EnvDaemon+"=docker", "DOCKER_HOST=unix://"+sock, "PATH="+dir)
	if got := end(t, cmd); got != 0 {
		t.Fatalf("exit code %d\n%s", got, out)
	}
	if !strings.Contains(out.String(), "warning: this image has no docker client") || !strings.Contains(out.String(), "RUN") {
		t.Fatalf("output\n%s", out)
	}
}

func TestConfiguredNameIsReadAsDotNetWritesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]any{"agentId": 7, "agentName": "zoomies-a-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".runner"), append([]byte("\xef\xbb\xbf"), raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := configuredName(dir); err != nil || name != "zoomies-a-1" {
		t.Fatalf("%q, %v", name, err)
	}
}
