// Command runner is a stand-in for GitHub's Actions runner in the demo and the tests. It follows the contract of
// `run.sh --jitconfig`: it registers with a just-in-time configuration, takes one job from the simulated
// GitHub, runs its shell steps, streams the log and exits with the real runner's codes.
//
// It must never keep a step from being an ordinary process: steps get a shell, the environment and a
// process group, nothing of the runner's own secrets.
//
// Called by the name run.sh it also behaves as that script does: it restarts the listener after a retryable
// error and otherwise exits 0. Under any other name it exits with the listener's own code.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// version is the runner version that the stand-in claims.
const version = "2.330.0"

// The listener's exit codes, as actions/runner defines them.
const (
	exitSuccess         = 0
	exitTerminated      = 1
	exitRetryable       = 2
	exitUpdating        = 3 // never used here: the stand-in does not update itself
	exitOnceUpdating    = 4 // likewise
	exitSessionConflict = 5
	exitRefreshed       = 6 // likewise
	exitDeprecated      = 7
)

// jitVariable carries the JIT configuration when no argument does. Every variable of its prefix is an
// argument, and is taken out of the environment.
const (
	inputPrefix = "ACTIONS_RUNNER_INPUT_"
	jitVariable = inputPrefix + "JITCONFIG"
)

// deprecatedVariable asks for exit code 7 when the runner is too old.
const deprecatedVariable = "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE"

// relaunchAfter is run.sh's pause before it starts the listener again.
const relaunchAfter = 5 * time.Second

func main() {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := <-signals
		if sig == syscall.SIGINT {
			fmt.Println("Exiting...")
		}
		stop(errShutdown)
	}()
	l := &launcher{args: os.Args[1:], stdout: os.Stdout, stderr: os.Stderr, dir: ".", timing: realTiming()}
	if filepath.Base(os.Args[0]) == "run.sh" {
		os.Exit(l.script(ctx))
	}
	os.Exit(l.listen(ctx))
}

// launcher is one start of the program.
type launcher struct {
	args           []string
	stdout, stderr io.Writer
	dir            string // the runner's root: configuration files and the work folder are below it
	timing         timing
}

// listen runs the listener once and returns its exit code.
func (l *launcher) listen(ctx context.Context) int {
	jit, done, code := l.parse()
	if done {
		return code
	}
	out := &terminal{stdout: l.stdout, stderr: l.stderr}
	cfg, err := loadConfig(l.dir, jit)
	if err != nil {
		out.errorf("%v", err)
		return exitTerminated
	}
	return newListener(l.dir, cfg, out, l.timing).run(ctx)
}

// script does what run.sh and its helper do around the listener.
func (l *launcher) script(ctx context.Context) int {
	for {
		code := l.listen(ctx)
		switch {
		case code == exitSuccess:
			fmt.Fprintln(l.stdout, "Runner listener exit with 0 return code, stop the service, no retry needed.")
		case code == exitDeprecated && os.Getenv(deprecatedVariable) == "1":
			fmt.Fprintf(l.stdout, "Runner listener exit with deprecated version exit code: %d.\nExiting runner...\n", code)
			return code
		case code == exitTerminated:
			fmt.Fprintln(l.stdout, "Runner listener exit with terminated error, stop the service, no retry needed.")
		case code == exitRetryable:
			fmt.Fprintln(l.stdout, "Runner listener exit with retryable error, re-launch runner in 5 seconds.")
			if sleep(ctx, relaunchAfter) == nil {
				fmt.Fprintln(l.stdout, "Restarting runner...")
				continue
			}
		case code == exitSessionConflict:
			fmt.Fprintln(l.stdout, "Runner listener exit with Session Conflict error, stop the service, no retry needed.")
		default:
			fmt.Fprintf(l.stdout, "Exiting with unknown error code: %d\n", code)
		}
		fmt.Fprintln(l.stdout, "Exiting runner...")
		return exitSuccess
	}
}

// parse reads the arguments. The JIT configuration also comes from the environment, which is cleared of it
// so that no step sees it.
func (l *launcher) parse() (jit string, done bool, code int) {
	jit = os.Getenv(jitVariable)
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(strings.ToUpper(name), inputPrefix) {
			_ = os.Unsetenv(name) // a name that the environment gave us is a valid one
		}
	}
	for i := 0; i < len(l.args); i++ {
		arg, value, has := strings.Cut(l.args[i], "=")
		switch arg {
		case "run", "--disableupdate", "--once":
		case "--version":
			fmt.Fprintln(l.stdout, version)
			return "", true, exitSuccess
		case "--jitconfig":
			if !has && i+1 < len(l.args) {
				i++
				value = l.args[i]
			}
			jit = value
		default:
			fmt.Fprintf(l.stderr, "Unrecognized command-line input arguments for command run: '%s'. For usage refer to: ./config.sh --help\n", arg)
			return "", true, exitTerminated
		}
	}
	return jit, false, 0
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
