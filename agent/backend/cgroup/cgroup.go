// Package cgroup reads what a local container has used straight from the kernel's files: a
// sample costs microseconds where an engine's answer costs milliseconds, and it works where
// the engine's own statistics do not (Podman on hybrid cgroups). It only reads.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
)

// Usage is what the processes of one cgroup have used.
type Usage struct {
	CPUTime     time.Duration
	MemoryBytes int64 // without page cache that the kernel can drop at once
}

// ErrForeign says that the process is not in the cgroup it was expected in: its number was
// reused, or it belongs to another machine.
var ErrForeign = errors.New("the process is not in the expected cgroup")

// Read samples the cgroup of process pid, whose path must hold id (the container's ID): a
// number alone does not prove that it is the right process, or on this machine at all.
func Read(pid int, id string) (Usage, error) {
	paths, err := cgroups.ParseCgroupFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("cannot find the cgroup of process %d: %w", pid, err)
	}
	if unified, ok := paths[""]; ok && cgroups.IsCgroup2UnifiedMode() {
		return readV2(unified, id)
	}
	return readV1(paths, id)
}

func readV2(path, id string) (Usage, error) {
	dir, err := container(path, id)
	if err != nil {
		return Usage{}, err
	}
	dir = filepath.Join("/sys/fs/cgroup", dir)
	micros, err := field(filepath.Join(dir, "cpu.stat"), "usage_usec")
	if err != nil {
		return Usage{}, err
	}
	return memory(dir, "memory.current", "inactive_file", Usage{CPUTime: time.Duration(micros) * time.Microsecond})
}

func readV1(paths map[string]string, id string) (Usage, error) {
	cpu, err := hierarchy(paths, "cpuacct", id)
	if err != nil {
		return Usage{}, err
	}
	mem, err := hierarchy(paths, "memory", id)
	if err != nil {
		return Usage{}, err
	}
	nanos, err := number(filepath.Join(cpu, "cpuacct.usage"))
	if err != nil {
		return Usage{}, err
	}
	return memory(mem, "memory.usage_in_bytes", "total_inactive_file", Usage{CPUTime: time.Duration(nanos)})
}

// hierarchy is the directory of a version 1 controller.
func hierarchy(paths map[string]string, controller, id string) (string, error) {
	dir, err := container(paths[controller], id)
	if err != nil {
		return "", err
	}
	root, err := cgroups.FindCgroupMountpoint("", controller)
	if err != nil {
		return "", fmt.Errorf("cannot find where the %s controller is mounted: %w", controller, err)
	}
	return filepath.Join(root, dir), nil
}

// container cuts path after the part that names the container, so that a process in a cgroup
// nested below (a container's own init, a sidecar's containers) still means the whole one.
func container(path, id string) (string, error) {
	at := strings.Index(path, id)
	if id == "" || at < 0 {
		return "", ErrForeign
	}
	if end := strings.IndexByte(path[at:], '/'); end >= 0 {
		path = path[:at+end]
	}
	return path, nil
}

func memory(dir, file, cache string, u Usage) (Usage, error) {
	used, err := number(filepath.Join(dir, file))
	if err != nil {
		return Usage{}, err
	}
	droppable, err := field(filepath.Join(dir, "memory.stat"), cache)
	if err != nil {
		return Usage{}, err
	}
	u.MemoryBytes = max(used-droppable, 0)
	return u, nil
}

func number(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read usage: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read usage from %s: %w", path, err)
	}
	return n, nil
}

// field reads "key value" lines.
func field(path, key string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read usage: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), key+" "); ok {
			n, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("cannot read usage from %s: %w", path, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("cannot find %s in %s", key, path)
}
