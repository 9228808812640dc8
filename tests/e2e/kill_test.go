package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
)

// killPoints are the steps of a runner's way at which the whole controller process, its embedded agent with it, is killed.
var killPoints = []string{
	"row written, registration not yet asked for",
	"registration minted, answer lost",
	"task written, not yet offered",
	"task leased, agent has not seen it",
	"container about to be made",
	"container made, answer not yet sent",
	"answer to the create recorded",
	"first report about to be sent",
	"job running",
	"end about to be reported",
	"end recorded",
}

// A31, A29: whatever step the controller is killed at, the job runs once, on one runner, and nothing is left.
func TestControllerKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for i, point := range killPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killedAt(t, i)
		})
	}
}

func killedAt(t *testing.T, point int) {
	dir := t.TempDir()
	// An address of its own: on the common one a connection of another fleet could take the port while nobody listens.
	listen := fmt.Sprintf("127.0.7.%d:0", 1+point)
	f, err := demo.Start(t.Context(), demo.Options{
		NodeOptions: demo.NodeOptions{Dir: dir, Listen: listen, Capacity: 2, Settings: quick(), Logger: testLog()},
		MaxPool:     2, Engine: engine, NoAgent: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.StopController(); err != nil { // the children take over from here
		t.Fatal(err)
	}
	o := childOptions{Dir: dir, Socket: engine.Socket(), Listen: f.URL()[len("http://"):], KillAt: point}
	victim := startChild(t, o)
	id := f.GitHub.QueueJob(job("victim", "sleep 1; echo ran"))
	if !victim.killed(t) {
		t.Fatalf("the controller was not killed at %q", killPoints[point])
	}
	o.KillAt = -1
	startChild(t, o)
	finish(t, f.GitHub, id, "success")

	b := podman.New(podman.Options{Socket: engine.Socket(), HostID: hostOf(t, dir)})
	eventually(t, "no container and no registration is left", func() bool {
		ws, err := b.List(t.Context())
		return err == nil && len(ws) == 0 && len(f.GitHub.Runners()) == 0
	})
	if n := f.GitHub.Stats().Online; n != 1 {
		t.Errorf("%d runners came online for one job", n)
	}
}

// hostOf reads the host's ID out of the agent's state.
func hostOf(t *testing.T, dir string) string {
	t.Helper()
	var state struct {
		HostID string `json:"host_id"`
	}
	raw, err := os.ReadFile(dir + "/agent.json")
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil || state.HostID == "" {
		t.Fatalf("cannot read the agent's state: %v (%s)", err, raw)
	}
	return state.HostID
}

type childProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it is dead
}

func startChild(t *testing.T, o childOptions) *childProcess {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s", childVariable, raw))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &childProcess{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in the process's state
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
		}
	})
	return c
}

// killed waits until the child is dead by SIGKILL.
func (c *childProcess) killed(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-c.done:
		st, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && st.Signaled() && st.Signal() == syscall.SIGKILL
	case <-ctx.Done():
		return false
	}
}
