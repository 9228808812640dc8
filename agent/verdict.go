package agent

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Exit codes that the runner image gives a meaning.
const (
	ExitDaemonSilent = 69 // the pool's daemon never answered
	ExitBadSetting   = 78 // a setting cannot be used
)

const (
	maxMessage = 2000      // bytes of a sentence that is sent
	tailLines  = 60        // lines of log that a verdict reads
	tailBytes  = 128 << 10 // and at most so much of it
	tailWait   = 5 * time.Second
)

// A logVerdict is a line of the runner's own log that explains an end better than its exit
// code: run.sh ends with 0 after most of them.
type logVerdict struct {
	line    *regexp.Regexp
	state   string
	message string
}

var logVerdicts = []logVerdict{
	{
		regexp.MustCompile(`Runner version v?[0-9.]+ is deprecated and cannot receive messages`), stateFailed,
		"GitHub refuses this runner's version: \"Runner version is deprecated and cannot receive messages\". Build the runner image again with a current runner, and restart the pool.",
	},
	{
		regexp.MustCompile(`The runner registration has been deleted from the server`), stateRemoved,
		"GitHub deleted the registration of this runner while it waited for a job.",
	},
	{
		regexp.MustCompile(`A session for this runner already exists`), stateFailed,
		"GitHub says that a session for this runner exists already: something else runs with the same registration.",
	},
	{
		regexp.MustCompile(`Runner listener exit with terminated error`), stateFailed,
		"The runner gave up with an error of its own; its log says why.",
	},
}

// jobLines are lines of the runner's log that quote a job's name, which its author chose.
var jobLines = regexp.MustCompile(`Running job: |Job .* completed with result: `)

// verdict judges how a workload ended.
func (a *Agent) verdict(ctx context.Context, b backend.Backend, w backend.Workload) ending {
	code := w.ExitCode
	e := ending{state: stateFailed, exit: &code, oom: w.OOMKilled}
	t, _ := a.fleet.get(w.RunnerID)
	switch {
	case w.OOMKilled:
		e.message = "The kernel killed the runner: its job needed more memory than the runner has. Give the pool more memory."
		return e
	case a.cutByReboot(w):
		e.message = "The host restarted while the runner was running."
		return e
	case code == ExitDaemonSilent:
		e.message = "The pool's image-building daemon did not answer in time, so the runner took no job (exit code 69); the runner's log says more."
		return e
	case code == ExitBadSetting:
		e.message = "A setting of the runner cannot be used, so it took no job (exit code 78); the runner's log names it."
		return e
	case t.stopAsked:
		e.state, e.message = stateRemoved, fmt.Sprintf("The runner was stopped (exit code %d).", code)
		return e
	}
	if v, ok := judgeTail(logTail(ctx, b, w.ID)); ok {
		e.state, e.message = v.state, v.message
		return e
	}
	if code == 0 {
		e.state = stateRemoved
		return e
	}
	e.message = fmt.Sprintf("The runner ended with exit code %d; its log says more.", code)
	return e
}

// cutByReboot says that w was running when the machine went down: it started before this
// boot and nobody saw it end before.
func (a *Agent) cutByReboot(w backend.Workload) bool {
	boot := a.machine.BootTime()
	if boot.IsZero() || w.StartedAt.IsZero() || !w.StartedAt.Before(boot) {
		return false
	}
	return w.EndedAt.IsZero() || !w.EndedAt.Before(boot)
}

// logTail reads the end of a workload's log; "" when it cannot be had.
func logTail(ctx context.Context, b backend.Backend, workload string) string {
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	r, err := b.Logs(ctx, workload, backend.LogOptions{Tail: tailLines})
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	data, _ := io.ReadAll(io.LimitReader(r, tailBytes))
	return string(data)
}

// judgeTail finds the first verdict that a line of the log gives.
func judgeTail(tail string) (logVerdict, bool) {
	lines := strings.Split(tail, "\n")
	for _, v := range logVerdicts {
		for _, l := range lines {
			if v.line.MatchString(l) && !jobLines.MatchString(l) {
				return v, true
			}
		}
	}
	return logVerdict{}, false
}

// clip cuts s to at most n bytes, at a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}
