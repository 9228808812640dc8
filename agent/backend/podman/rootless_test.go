package podman

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"go.podman.io/storage/pkg/idtools"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// A machine that gives a user too little is told in one sentence with what to do, not in Podman's.
func TestWhatAMachineLacksForRootlessIsSaid(t *testing.T) {
	t.Parallel()
	all := func(name string) (string, error) { return "/usr/bin/" + name, nil }
	for name, c := range map[string]struct {
		lookPath func(string) (string, error)
		file     string
		value    string
		want     string // "" is nothing
	}{
		"nothing":          {lookPath: all},
		"no newuidmap":     {lookPath: func(string) (string, error) { return "", exec.ErrNotFound }, want: "package uidmap"},
		"none allowed":     {all, "user/max_user_namespaces", "0\n", "sysctl user.max_user_namespaces="},
		"some allowed":     {all, "user/max_user_namespaces", "96365\n", ""},
		"closed by Debian": {all, "kernel/unprivileged_userns_clone", "0\n", "sysctl kernel.unprivileged_userns_clone=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine{root: t.TempDir(), lookPath: c.lookPath}
			if c.file != "" {
				write(t, filepath.Join(m.root, "proc/sys", c.file), c.value, 0o600)
			}
			check(t, m.userNamespaces(), c.want)
		})
	}
}

func TestMissingTunIsSaidForNetworksThatNeedIt(t *testing.T) {
	t.Parallel()
	m := machine{root: t.TempDir()}
	err := m.tun()
	check(t, err, "modprobe tun")
	f := features{info: backend.Info{Rootless: true}, noTun: err}
	for name, works := range map[string]bool{"": false, "bridge": false, "pasta": false, "mine": false, "host": true, "none": true} {
		if _, got := f.network(name); (got == nil) != works {
			t.Errorf("network %q: %v", name, got)
		}
	}
	write(t, filepath.Join(m.root, "dev/net/tun"), "", 0o600)
	if err := m.tun(); err != nil {
		t.Errorf("one that opens: %v", err)
	}
}

func TestTooFewIDsAreSaid(t *testing.T) {
	t.Parallel()
	one := []idtools.IDMap{{ContainerID: 0, HostID: 1000, Size: 1}}
	whole := slices.Concat(one, []idtools.IDMap{{ContainerID: 1, HostID: 100000, Size: 65536}})
	check(t, idRange(define.IDMappings{UIDMap: whole, GIDMap: whole}, "ann"), "")
	check(t, idRange(define.IDMappings{UIDMap: one, GIDMap: one}, "ann"), "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ann")
	check(t, idRange(define.IDMappings{UIDMap: whole, GIDMap: one}, "ann"), "user ann has 1 IDs")
}

// Podman lists a machine's controllers even where a user's containers get none of them.
func TestLimitsWithoutRootNeedSystemdAndVersion2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rootless         bool
		version, manager string
		want             bool
	}{
		"root, version 1":                 {false, "v1", "cgroupfs", true},
		"root, version 2":                 {false, "v2", "cgroupfs", true},
		"rootless, version 1":             {true, "v1", "cgroupfs", false},
		"rootless, version 2, no session": {true, "v2", "cgroupfs", false},
		"rootless, version 2, session":    {true, "v2", "systemd", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &define.Info{Host: &define.HostInfo{
				CgroupsVersion: c.version, CgroupManager: c.manager, CgroupControllers: []string{"cpu", "memory", "pids"},
				Security: define.SecurityInfo{Rootless: c.rootless},
			}}
			b := New(Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
			f := b.read(t.Context(), info)
			if f.info.CPULimit != c.want || f.info.MemoryLimit != c.want || f.info.PidsLimit != c.want {
				t.Errorf("%+v", f.info)
			}
			// What cannot be applied is not asked for, neither by us nor by the plain command beside us.
			flags := strings.Join(runFlags(backend.Spec{CPUs: 1.5, MemoryMB: 64, PidsLimit: 9}, f, "private"), " ")
			want := "--network private"
			if c.want {
				want += " --cpus 1.5 --memory 67108864 --memory-swap 67108864 --pids-limit 9"
			}
			if flags != want {
				t.Errorf("flags %q, want %q", flags, want)
			}
		})
	}
}

func TestDelegatedControllersAreRead(t *testing.T) {
	t.Parallel()
	m := machine{root: t.TempDir()}
	if got := m.delegated(1000); got != nil {
		t.Errorf("without a session: %v", got)
	}
	write(t, filepath.Join(m.root, "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"), "cpu memory pids\n", 0o600)
	if got := m.delegated(1000); !slices.Equal(got, []string{"cpu", "memory", "pids"}) {
		t.Errorf("got %v", got)
	}
}

func TestAHeldProcessIsEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, script := range map[string]string{"that listens": "echo ready; while :; do sleep 1; done", "that does not": "trap '' TERM; echo ready; while :; do sleep 1; done"} {
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if p := hold(cmd.Process.Pid, func([]string) bool { return false }); p.fd != 0 {
			t.Error("a process with other arguments was held")
		}
		hold(cmd.Process.Pid, func(args []string) bool { return args[0] == "sh" }).end(200 * time.Millisecond)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Errorf("one %s: %v", name, err)
		}
	}
	process{}.end(time.Second) // none
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
