package boot

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start starts cmd and returns its output, line by line.
func start(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	cmd.Stdout, cmd.Stderr = nil, nil
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return bufio.NewScanner(pipe)
}

// awaitLine reads until a line that holds text.
func awaitLine(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the output ended without %q (%v)", text, lines.Err())
}

func TestStopSignalsReachTheRunner(t *testing.T) {
	t.Parallel()
	for sig, name := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The runner ends a job in its own time; a second signal must not be lost either.
			dir := scripts(t, map[string]string{"run.sh": fmt.Sprintf(
				`n=0; trap 'n=$((n+1)); echo got $n; [ $n -ge 2 ] && exit 42' %s; echo ready
while :; do read -r x < fifo || :; done`, name)})
			if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd, _ := entrypoint(t, dir, EnvJITConfig+"="+testJIT(t))
			lines := start(t, cmd)
			awaitLine(t, lines, "ready")
			for n := 1; n <= 2; n++ {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				awaitLine(t, lines, fmt.Sprintf("got %d", n))
			}
			if got := finish(cmd, lines); got != 42 {
				t.Fatalf("exit code %d", got)
			}
		})
	}
}

// finish reads the rest of cmd's output and returns its exit code.
func finish(cmd *exec.Cmd, lines *bufio.Scanner) int {
	for lines.Scan() {
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

func TestStopSignalEndsTheWaitForTheDaemon(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	sock := filepath.Join(t.TempDir(), "d.sock")
	serve(t, "unix", sock, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		select {
		case asked <- struct{}{}:
		default:
		}
	})
	cmd, _ := entrypoint(t, scripts(t, map[string]string{"run.sh": "echo RUN"}),
		EnvJITConfig+"="+testJIT(t), EnvDaemon+"=docker", EnvWait+"=3600", "DOCKER_HOST=unix://"+sock)
	lines := start(t, cmd)
	<-asked // it waits
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, lines, "stopped by signal terminated")
	if got := finish(cmd, lines); got != 143 {
		t.Fatalf("exit code %d", got)
	}
}

// Orphans of a job's steps become children of process 1: nobody else can reap them.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	// Ten orphans: each prints its own process ID and ends when its parent has gone.
	dir := scripts(t, map[string]string{"run.sh": `
for i in 1 2 3 4 5 6 7 8 9 10; do
  ( ( sh -c 'echo orphan $$; read -r x < gate || :' ) & )
done
echo spawned
read -r x < hold || :
exit 5`})
	for _, name := range []string{"gate", "hold"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd, _ := entrypoint(t, dir, EnvJITConfig+"="+testJIT(t))
	lines := start(t, cmd)
	pids := map[string]bool{}
	for spawned := false; len(pids) < 10 || !spawned; {
		if !lines.Scan() {
			t.Fatalf("output ended with %d orphans: %v", len(pids), lines.Err())
		}
		if m := regexp.MustCompile(`^orphan (\d+)$`).FindStringSubmatch(lines.Text()); m != nil {
			pids[m[1]] = true
		}
		spawned = spawned || lines.Text() == "spawned"
	}
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	gate := open("gate")
	if _, err := gate.WriteString(strings.Repeat("\n", 10)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(pids) > 0 {
		for pid := range pids {
			if _, err := os.Stat("/proc/" + pid); err != nil {
				delete(pids, pid)
			} else if time.Now().After(deadline) {
				stat, _ := os.ReadFile("/proc/" + pid + "/stat")
				t.Fatalf("process %s was not reaped: %s", pid, stat)
			}
		}
	}
	_ = gate.Close()
	hold := open("hold")
	defer func() { _ = hold.Close() }()
	_, _ = hold.WriteString("\n")
	if got := finish(cmd, lines); got != 5 {
		t.Fatalf("exit code %d", got)
	}
}

// A process of the job that runs as the same user must not read process 1's environment,
// where the container's first variables stay for as long as it lives.
func TestFirstEnvironmentIsClosed(t *testing.T) {
	t.Parallel()
	dir := scripts(t, map[string]string{"run.sh": "stat -c %u /proc/$PPID/environ"})
	cmd, out := entrypoint(t, dir, EnvJITConfig+"="+testJIT(t))
	if os.Getuid() == 0 { // as another user, or the owner says nothing
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		for d := dir; d != filepath.Dir(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
			if d != os.TempDir() {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		program := filepath.Join(dir, "entrypoint")
		self, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		install(t, self, program)
		_ = self.Close()
		cmd.Path = program
	}
	if code := end(t, cmd); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if !strings.HasSuffix(strings.TrimSpace(out.String()), "\n0") {
		t.Fatalf("the environment does not belong to root:\n%s", out)
	}
}
