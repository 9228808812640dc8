package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// startedPrefix begins the first line that the runner image's entrypoint prints; the moment follows.
const startedPrefix = "zoomies-entrypoint: started "

func parseStarted(line string) (time.Time, error) {
	at, ok := strings.CutPrefix(strings.TrimSpace(line), startedPrefix)
	if !ok {
		return time.Time{}, fmt.Errorf("the container's first line is %q, not the entrypoint's", line)
	}
	return time.Parse(time.RFC3339Nano, at)
}

// firstLine reads when a container's entrypoint started from its log.
func firstLine(ctx context.Context, b backend.Backend, id string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := b.Logs(ctx, id, backend.LogOptions{Follow: true})
	if err != nil {
		return time.Time{}, err
	}
	defer r.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the container's log: %w", err)
	}
	return parseStarted(line)
}

// plainRun starts the demo's image as a user would by hand, with the network and limits that the backend gives it, and returns the time to
// the entrypoint's first line. The container ends by itself right after it: it has no registration.
func plainRun(ctx context.Context, f *Fleet, i int) (time.Duration, error) {
	p := f.Pool
	flags, err := f.Agent().Backend().RunFlags(ctx, backend.Spec{CPUs: p.CPUs, MemoryMB: p.MemoryMB, PidsLimit: p.PidsLimit, Network: p.Network})
	if err != nil {
		return 0, err
	}
	args := append(f.Engine.Args(), "run", "--rm", "--name", fmt.Sprintf("plain-%d", i), "--pull", "never")
	args = append(append(args, flags...), Image)
	cmd := exec.CommandContext(ctx, "podman", args...)
	cmd.Env = f.Engine.Env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot run podman: %w", err)
	}
	line, rerr := bufio.NewReader(out).ReadString('\n')
	_, _ = io.Copy(io.Discard, out) // the rest is of no interest
	_ = cmd.Wait()                  // exits 78 for want of a registration
	if rerr != nil {
		return 0, fmt.Errorf("plain podman run printed nothing: %w: %s", rerr, stderr.String())
	}
	at, err := parseStarted(line)
	return at.Sub(began), err
}
