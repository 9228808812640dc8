package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runDeps runs tools/deps with programs of its own instead of the system's. have lists the
// packages that count as installed; every call of apt-get is logged to the second result.
func runDeps(t *testing.T, uid, have string, sudo bool, groups ...string) (output, calls string, err error) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put("id", "echo "+uid)
	put("dpkg-query", `for p in $HAVE; do [ "$p" = "$3" ] && printf installed && exit 0; done; exit 1`)
	put("apt-get", `echo "apt-get $*" >>"$CALLS"`)
	put("apt-cache", "exit 0")
	put("env", `while [ "${1#*=}" != "$1" ]; do shift; done; exec "$@"`)
	if sudo {
		put("sudo", `echo sudo >>"$CALLS"; exec "$@"`)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "tools", "deps"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/bash", append([]string{script}, groups...)...)
	cmd.Env = []string{"PATH=" + dir, "HAVE=" + have, "CALLS=" + log}
	out, err := cmd.CombinedOutput()
	made, readErr := os.ReadFile(log)
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(out), string(made), err
}

// A newcomer is told what is installed before it is, is never asked, and nothing is done twice.
func TestDeps(t *testing.T) {
	t.Parallel()
	const race = "gcc libc6-dev"
	t.Run("all there", func(t *testing.T) {
		t.Parallel()
		out, calls, err := runDeps(t, "0", race, false, "race")
		if err != nil || out != "" || calls != "" {
			t.Errorf("said %q, called %q, %v", out, calls, err)
		}
	})
	t.Run("one missing, as root", func(t *testing.T) {
		t.Parallel()
		out, calls, err := runDeps(t, "0", "gcc", false, "race")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !strings.Contains(out, "installing from Debian's packages: libc6-dev\n") {
			t.Errorf("said %q", out)
		}
		if !strings.Contains(calls, "install -y") || !strings.HasSuffix(calls, " libc6-dev\n") || strings.Contains(calls, "sudo") {
			t.Errorf("called %q", calls)
		}
	})
	t.Run("as a user with sudo", func(t *testing.T) {
		t.Parallel()
		out, calls, err := runDeps(t, "1000", "", true, "run")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, want := range []string{"sudo", "podman", "busybox-static", "passt", "dbus-user-session"} {
			if !strings.Contains(calls, want) {
				t.Errorf("called %q, want %s in it", calls, want)
			}
		}
	})
	t.Run("as a user without sudo", func(t *testing.T) {
		t.Parallel()
		out, calls, err := runDeps(t, "1000", "gcc", false, "race")
		if err == nil || calls != "" || !strings.Contains(out, "apt-get install libc6-dev") {
			t.Errorf("said %q, called %q, %v", out, calls, err)
		}
	})
	t.Run("no such group", func(t *testing.T) {
		t.Parallel()
		if out, _, err := runDeps(t, "0", "", false, "coffee"); err == nil || !strings.Contains(out, "no group coffee") {
			t.Errorf("said %q, %v", out, err)
		}
	})
}
