package host

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Local is this machine, read from /proc, /sys/fs/cgroup and statfs. The zero value is ready.
type Local struct {
	// Root replaces the filesystem's root, for tests; nil is the real one.
	Root fs.FS
}

// lastCPU is the CPU counters at the last call of Load: one machine, one memory of it.
var lastCPU struct {
	sync.Mutex
	busy, total uint64
}

func (l Local) root() fs.FS {
	if l.Root != nil {
		return l.Root
	}
	return os.DirFS("/")
}

func (l Local) read(name string) string {
	data, err := fs.ReadFile(l.root(), name)
	if err != nil {
		return ""
	}
	return string(data)
}

// Size implements Machine.
func (l Local) Size() Size {
	s := Size{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: float64(runtime.NumCPU())}
	s.Distro = prettyName(l.read("etc/os-release"))
	s.MemoryMB = meminfo(l.read("proc/meminfo"), "MemTotal") / 1024
	if cpus := l.cgroupCPUs(); cpus > 0 {
		s.CPUs = min(s.CPUs, cpus)
	}
	if mb := l.cgroupMemoryMB(); mb > 0 && (s.MemoryMB == 0 || mb < s.MemoryMB) {
		s.MemoryMB = mb
	}
	return s
}

// Load implements Machine.
func (l Local) Load() Load {
	var out Load
	first, _, _ := strings.Cut(l.read("proc/loadavg"), " ")
	out.Load1, _ = strconv.ParseFloat(first, 64)
	out.MemoryAvailableMB = meminfo(l.read("proc/meminfo"), "MemAvailable") / 1024
	busy, total := cpuCounters(l.read("proc/stat"))
	lastCPU.Lock()
	defer lastCPU.Unlock()
	if lastCPU.total > 0 && total > lastCPU.total && busy >= lastCPU.busy {
		out.CPUUsed = min(1, float64(busy-lastCPU.busy)/float64(total-lastCPU.total))
	}
	lastCPU.busy, lastCPU.total = busy, total
	return out
}

// Disk implements Machine.
func (Local) Disk(path string) (totalMB, freeMB int64) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, 0
	}
	block := uint64(st.Bsize)
	return int64((st.Blocks - st.Bfree + st.Bavail) * block >> 20), int64(st.Bavail * block >> 20)
}

// BootTime implements Machine.
func (l Local) BootTime() time.Time {
	for line := range strings.Lines(l.read("proc/stat")) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			if secs, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil && secs > 0 {
				return time.Unix(secs, 0)
			}
		}
	}
	return time.Time{}
}

// cgroupDirs are this process's cgroup and its parents below the mount: v2, then v1 by
// controller. In a cgroup namespace both are "/".
func (l Local) cgroupDirs(controller string) (dirs []string, v2 bool) {
	for line := range strings.Lines(l.read("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "" && l.read("sys/fs/cgroup/cgroup.controllers") != "":
			return parents("sys/fs/cgroup", parts[2]), true
		case slices.Contains(strings.Split(parts[1], ","), controller):
			return parents("sys/fs/cgroup/"+controller, parts[2]), false
		}
	}
	return nil, false
}

// parents lists base+p and every folder above it down to base.
func parents(base, p string) []string {
	var dirs []string
	for p = path.Clean("/" + p); ; p = path.Dir(p) {
		dirs = append(dirs, strings.TrimSuffix(base+p, "/"))
		if p == "/" {
			return dirs
		}
	}
}

// cgroupCPUs is the least CPU quota on the way to the root, in cores; 0 for none.
func (l Local) cgroupCPUs() (least float64) {
	dirs, v2 := l.cgroupDirs("cpu")
	for _, d := range dirs {
		var quota, period float64
		if v2 {
			f := strings.Fields(l.read(d + "/cpu.max"))
			if len(f) != 2 || f[0] == "max" {
				continue
			}
			quota, period = number(f[0]), number(f[1])
		} else {
			quota, period = number(l.read(d+"/cpu.cfs_quota_us")), number(l.read(d+"/cpu.cfs_period_us"))
		}
		if quota > 0 && period > 0 && (least == 0 || quota/period < least) {
			least = quota / period
		}
	}
	return least
}

// cgroupMemoryMB is the least memory limit on the way to the root; 0 for none.
func (l Local) cgroupMemoryMB() (least int64) {
	dirs, v2 := l.cgroupDirs("memory")
	for _, d := range dirs {
		name := "/memory.limit_in_bytes"
		if v2 {
			name = "/memory.max"
		}
		bytes := number(l.read(d + name)) // "max" is no number, hence 0
		// cgroup v1 says "no limit" with the largest page-aligned number.
		if bytes <= 0 || bytes >= 1<<62 {
			continue
		}
		if mb := int64(bytes) >> 20; least == 0 || mb < least {
			least = mb
		}
	}
	return least
}

func number(s string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || v != v {
		return 0
	}
	return v
}

// meminfo reads one line of /proc/meminfo, in KiB.
func meminfo(text, key string) int64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			return max(n, 0)
		}
	}
	return 0
}

// cpuCounters reads the first line of /proc/stat. Waiting for a disk is idle time; guest time
// is counted in user time already.
func cpuCounters(text string) (busy, total uint64) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0
	}
	for i, s := range f[1:] {
		if i >= 8 {
			break
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, 0
		}
		total += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, total
}

func prettyName(osRelease string) string {
	sc := bufio.NewScanner(strings.NewReader(osRelease))
	for sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}
