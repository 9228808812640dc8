package host

import (
	"testing"
	"testing/fstest"
	"time"
)

func files(kv map[string]string) Local {
	m := fstest.MapFS{}
	for k, v := range kv {
		m[k] = &fstest.MapFile{Data: []byte(v)}
	}
	return Local{Root: m}
}

const meminfoText = "MemTotal:       16384000 kB\nMemFree:         100 kB\nMemAvailable:    8192000 kB\n"

func TestSizeIsWhatTheCgroupAllows(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files  map[string]string
		cpus   float64 // 0: whatever the machine has
		memory int64
	}{
		"no cgroup": {map[string]string{"proc/meminfo": meminfoText}, 0, 16000},
		"v2, limited in a parent": {map[string]string{
			"proc/meminfo": meminfoText, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
			"sys/fs/cgroup/a/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
			"sys/fs/cgroup/a/b/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 0.5, 1024},
		"v2, in a namespace": {map[string]string{
			"proc/meminfo": meminfoText, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu\n",
			"sys/fs/cgroup/cpu.max": "25000 100000\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 0.25, 512},
		"v1": {map[string]string{
			"proc/meminfo": meminfoText, "proc/self/cgroup": "12:cpu,cpuacct:/x\n4:memory:/y\n0::/\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "75000\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/memory/y/memory.limit_in_bytes": "2147483648\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0.75, 2048},
		"v1, no limit": {map[string]string{
			"proc/meminfo": meminfoText, "proc/self/cgroup": "12:cpu,cpuacct:/\n4:memory:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0, 16000},
		"nonsense": {map[string]string{
			"proc/meminfo": "MemTotal: lots kB", "proc/self/cgroup": "::\n0::\nx", "sys/fs/cgroup/cgroup.controllers": "cpu",
			"sys/fs/cgroup/cpu.max": "NaN NaN", "sys/fs/cgroup/memory.max": "-5",
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := files(tt.files).Size()
			if (tt.cpus > 0 && s.CPUs != tt.cpus) || s.CPUs <= 0 || s.MemoryMB != tt.memory {
				t.Errorf("%g cores and %d MiB, want %g and %d", s.CPUs, s.MemoryMB, tt.cpus, tt.memory)
			}
		})
	}
}

func TestLoadIsMeasuredBetweenCalls(t *testing.T) {
	at := func(stat string) Load {
		return files(map[string]string{"proc/meminfo": meminfoText, "proc/loadavg": "1.25 1 1 1/1 1\n", "proc/stat": stat}).Load()
	}
	lastCPU.busy, lastCPU.total = 0, 0
	first := at("cpu  100 0 100 800 0 0 0 0 50 0\n")
	if first.CPUUsed != 0 || first.Load1 != 1.25 || first.MemoryAvailableMB != 8000 {
		t.Errorf("the first load: %+v", first)
	}
	if l := at("cpu  150 0 150 890 10 0 0 0 90 0\n"); l.CPUUsed != 0.5 {
		t.Errorf("half of it was busy, and the load says %g", l.CPUUsed)
	}
	if l := at("cpu  1 0 1 8\n"); l.CPUUsed != 0 {
		t.Errorf("counters that went back gave %g", l.CPUUsed)
	}
	if l := at("what"); l.CPUUsed != 0 {
		t.Errorf("no counters gave %g", l.CPUUsed)
	}
}

func TestBootTime(t *testing.T) {
	t.Parallel()
	if got := files(map[string]string{"proc/stat": "cpu 1\nbtime 1700000000\n"}).BootTime(); !got.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("boot time %s", got)
	}
	for _, text := range []string{"", "btime x", "btime -1"} {
		if got := files(map[string]string{"proc/stat": text}).BootTime(); !got.IsZero() {
			t.Errorf("%q: boot time %s", text, got)
		}
	}
}

func TestThisMachineCanBeMeasured(t *testing.T) {
	t.Parallel()
	var l Local
	s := l.Size()
	if s.CPUs <= 0 || s.MemoryMB <= 0 || s.OS == "" || s.Arch == "" {
		t.Errorf("size %+v", s)
	}
	if total, free := l.Disk(t.TempDir()); total <= 0 || free < 0 || free > total {
		t.Errorf("disk %d, %d", total, free)
	}
	if total, _ := l.Disk("/no/such/place"); total != 0 {
		t.Errorf("a disk that is not there has %d MiB", total)
	}
	if b := l.BootTime(); b.IsZero() || b.After(time.Now()) {
		t.Errorf("boot time %s", b)
	}
}

func TestDistro(t *testing.T) {
	t.Parallel()
	got := files(map[string]string{"etc/os-release": "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"}).Size().Distro
	if got != "Debian GNU/Linux 13 (trixie)" {
		t.Errorf("distro %q", got)
	}
}

func FuzzProc(f *testing.F) {
	f.Add("0::/a/../b\n", "max 100000", "cpu 1 2 3 4\nbtime 5\n", meminfoText)
	f.Add("4:memory:/\x00\n1:cpu:/../..", "1 0", "cpu", "")
	f.Fuzz(func(t *testing.T, cgroup, cpuMax, stat, mem string) {
		l := files(map[string]string{
			"proc/self/cgroup": cgroup, "sys/fs/cgroup/cgroup.controllers": "cpu", "sys/fs/cgroup/cpu.max": cpuMax,
			"sys/fs/cgroup/memory.max": cpuMax, "proc/stat": stat, "proc/meminfo": mem, "etc/os-release": mem,
		})
		if s := l.Size(); !(s.CPUs > 0) || s.MemoryMB < 0 {
			t.Errorf("size %+v", s)
		}
		if u := l.Load().CPUUsed; !(u >= 0 && u <= 1) {
			t.Errorf("CPU share %g", u)
		}
		_ = l.BootTime()
	})
}
