// Package boot is what the entrypoint of the runner image does, in order: read the settings,
// wait for the pool's container daemon, register a runner that has no JIT configuration, and
// hand over to the runner. It never prints a secret, never puts one on a command line, and
// never leaves one in the environment of a process that does not need it.
package boot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Exit codes of the entrypoint itself; every other code is the runner's own.
const (
	ExitUnavailable = 69  // EX_UNAVAILABLE: the pool's daemon never answered
	ExitConfig      = 78  // EX_CONFIG: a setting, the JIT configuration included, cannot be used
	ExitCannotRun   = 126 // the runner's program is there and cannot be started
	ExitNoRunner    = 127 // the image has no runner program
	exitSignal      = 128 // plus the signal's number
)

// Prefix starts every line that the entrypoint prints.
const Prefix = "zoomies-entrypoint: "

// Announce writes the line that says that the container runs: the end of the start latency.
func Announce(w io.Writer, now time.Time) {
	_, _ = io.WriteString(w, Prefix+"started "+now.UTC().Format(time.RFC3339Nano)+"\n")
}

// Run does the work of the entrypoint with the environment env ("KEY=value") and returns the
// exit code. It writes its own lines to out; the runner inherits the process's stdout and stderr.
func Run(out io.Writer, env []string) int {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, Prefix+format+"\n", args...) }

	// Everything that can end a container is caught from here on: process 1 has no default
	// action for a signal, so an uncaught SIGTERM would be lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)

	if err := becomeInit(); err != nil {
		say("warning: %v", err)
	}
	settings, err := ReadSettings(env)
	if err != nil {
		say("%v", err)
		return ExitConfig
	}
	if settings.Daemon != "" {
		if code := awaitDaemon(settings, signals, say); code != 0 {
			return code
		}
	}
	in := &initProcess{signals: signals}
	if settings.JIT == "" {
		if code := register(in, settings, say); code != 0 {
			return code
		}
	}
	code, err := in.run(settings.Command, settings.RunnerEnv())
	if err != nil {
		say("cannot start the runner: %v", err)
		return startFailure(err)
	}
	return code
}

// awaitDaemon returns 0 when the daemon answers, else the exit code.
func awaitDaemon(settings Settings, signals <-chan os.Signal, say func(string, ...any)) int {
	if !hasClient(settings.Daemon, exec.LookPath) {
		say("warning: this image has no %s client, so job steps cannot use the pool's %s daemon; use the image's %s variant",
			settings.Daemon, settings.Daemon, settings.Daemon)
	}
	ctx, stop := stopOnSignal(signals)
	defer stop()
	if err := settings.Endpoint.Await(ctx, settings.DaemonWait); err != nil {
		if end, ok := errors.AsType[*signalError](err); ok {
			say("%v while waiting for the %s daemon", end, settings.Daemon)
			return exitSignal + int(end.signal)
		}
		say("the %s daemon at %s did not answer within %s (ZOOMIES_DOCKER_WAIT): %v; see the log of the pool's daemon container",
			settings.Daemon, settings.Endpoint, settings.DaemonWait, err)
		return ExitUnavailable
	}
	return 0
}

// register runs config.sh for a runner that is not ephemeral. It returns 0 when the runner is
// registered, which it is already when this container was started before.
func register(in *initProcess, settings Settings, say func(string, ...any)) int {
	dir := filepath.Dir(settings.Command)
	name, err := configuredName(dir)
	switch {
	case err != nil:
		say("%v", err)
		return ExitConfig
	case name == settings.Registration.Name:
		say("runner is registered already, going on with it")
		return 0
	case name != "":
		// Field report A27: two machines made from one configured template block each other.
		say("this image carries the configuration of another runner; rebuild it without .runner and .credentials")
		return ExitConfig
	}
	code, err := in.run(filepath.Join(dir, "config.sh"), settings.RegisterEnv())
	if err != nil {
		say("cannot start the runner's registration: %v", err)
		return startFailure(err)
	}
	if code != 0 {
		say("the runner's registration ended with exit code %d; its own lines above say why", code)
	}
	return code
}

// hasClient says whether the image holds a client for the daemon's kind.
func hasClient(kind string, look func(string) (string, error)) bool {
	names := []string{"docker"}
	if kind == DaemonPodman {
		names = []string{"podman", "podman-remote", "docker"}
	}
	for _, name := range names {
		if _, err := look(name); err == nil {
			return true
		}
	}
	return false
}

func startFailure(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return ExitNoRunner
	}
	return ExitCannotRun
}

// trimBOM takes off the byte order mark that .NET writes before JSON.
func trimBOM(b []byte) []byte { return []byte(strings.TrimPrefix(string(b), "\ufeff")) }
