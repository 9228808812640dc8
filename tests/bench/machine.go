package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine is what the figures were measured on. The load is of the moment before: above the number of CPUs, others had a say.
type machine struct {
	Time       time.Time `json:"time"`
	Kernel     string    `json:"kernel"`
	CPUs       int       `json:"cpus"`
	Model      string    `json:"model"`
	Load       string    `json:"load_before"` // 1, 5 and 15 minutes
	Go         string    `json:"go"`
	Podman     string    `json:"podman"`
	Folder     string    `json:"folder"` // of everything that is written
	Filesystem string    `json:"filesystem"`
}

func thisMachine(ctx context.Context) (machine, error) {
	m := machine{Time: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Go: runtime.Version(), Folder: os.TempDir()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("cannot ask for the kernel's version: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	var err error
	if m.Load, err = loadNow(); err != nil {
		return m, err
	}
	m.Model = firstField("/proc/cpuinfo", "model name")
	if m.Filesystem, err = filesystem(m.Folder); err != nil {
		return m, err
	}
	m.Podman = "none"
	if out, err := exec.CommandContext(ctx, "podman", "--version").Output(); err == nil {
		m.Podman = strings.TrimPrefix(strings.TrimSpace(string(out)), "podman version ")
	}
	return m, nil
}

// loadNow is the load of the last 1, 5 and 15 minutes.
func loadNow() (string, error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("cannot read the load: %w", err)
	}
	return strings.Join(strings.Fields(string(load))[:3], " "), nil
}

// peakRSS is the most memory that this process has held, in MB.
func peakRSS() (float64, error) {
	value := firstField("/proc/self/status", "VmHWM")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read this process's memory: %w", err)
	}
	return kb / 1024, nil
}

// firstField is the value of the first "key : value" line of a file, or nothing.
func firstField(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// filesystem is the type of what a folder lies on, from the mount whose device number is the folder's.
func filesystem(folder string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(folder, &st); err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", folder, err)
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("cannot read the mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) < 3 || f[2] != device {
			continue
		}
		if _, kind, ok := strings.Cut(line, " - "); ok {
			return strings.Fields(kind)[0], nil
		}
	}
	return "unknown", nil
}
