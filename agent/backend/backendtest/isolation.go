package backendtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// readLimits prints quota, period, memory, memory with swap, processes; version 1 or 2.
const readLimits = `cd /sys/fs/cgroup; if [ -e cgroup.controllers ]; then
	cat cpu.max | tr ' ' '\n'; cat memory.max; echo $(( $(cat memory.max) + $(cat memory.swap.max) )); cat pids.max
else
	cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us memory/memory.limit_in_bytes
	cat memory/memory.memsw.limit_in_bytes 2>/dev/null || cat memory/memory.limit_in_bytes
	cat pids/pids.max
fi`

func testLimits(t *testing.T, h Harness) {
	r := start(t, h)
	info, err := r.Probe(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !info.CPULimit || !info.MemoryLimit || !info.PidsLimit {
		t.Logf("this engine cannot apply every limit: %+v", info)
	}
	spec := r.spec(readLimits)
	spec.CPUs, spec.MemoryMB, spec.PidsLimit = 0.75, 96, 77
	_, log := r.run(spec)
	got := strings.Fields(log)
	if !info.CPULimit && !info.MemoryLimit && !info.PidsLimit {
		return // it started all the same; a container that has no cgroup of its own has no files to read
	}
	if len(got) != 5 {
		t.Fatalf("read %q", log)
	}
	memory := strconv.Itoa(96 << 20)
	for i, c := range []struct {
		what, want string
		applies    bool
	}{
		{"CPU quota", "75000", info.CPULimit}, {"CPU period", "100000", info.CPULimit},
		{"memory", memory, info.MemoryLimit}, {"memory and swap", memory, info.MemoryLimit},
		{"processes", "77", info.PidsLimit},
	} {
		if c.applies && got[i] != c.want {
			t.Errorf("%s in the cgroup is %s, asked for %s", c.what, got[i], c.want)
		}
	}
	_, log = r.run(r.spec(readLimits))
	if got := strings.Fields(log); info.PidsLimit && (len(got) != 5 || got[4] != strconv.FormatInt(backend.DefaultPidsLimit, 10)) {
		t.Errorf("without being asked the limits are %q", log)
	}
}

func testPidsLimit(t *testing.T, h Harness) {
	r := start(t, h)
	info, err := r.Probe(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !info.PidsLimit {
		t.Skip("this engine cannot limit processes")
	}
	spec := r.spec(`i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i+1)); done; echo all started`)
	spec.PidsLimit = 12
	w, log := r.run(spec)
	if w.ExitCode == 0 || strings.Contains(log, "all started") {
		t.Errorf("forty processes fit into twelve: %+v %q", w, log)
	}
}

func testCapabilities(t *testing.T, h Harness) {
	r := start(t, h)
	const script = `grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status`
	read := func(spec backend.Spec) map[string]string {
		_, log := r.run(spec)
		out := map[string]string{}
		for line := range strings.Lines(log) {
			if key, value, ok := strings.Cut(line, ":"); ok {
				out[key] = strings.TrimSpace(value)
			}
		}
		return out
	}
	// chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service
	const kept = "00000000000004fb"
	if got := read(r.spec(script)); got["CapEff"] != kept || got["CapBnd"] != kept || got["NoNewPrivs"] != "0" {
		t.Errorf("a runner has %v", got)
	}
	locked := r.spec(script)
	locked.ReadOnly = true
	const none = "0000000000000000"
	if got := read(locked); got["CapEff"] != none || got["CapBnd"] != none || got["NoNewPrivs"] != "1" {
		t.Errorf("a read-only runner has %v", got)
	}
}

func testReadOnly(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec(`for d in / /etc /bin /home/runner; do touch $d/x 2>/dev/null && echo wrote $d; done
for d in /tmp /run /var/tmp ` + backend.WorkDir + `; do touch $d/x || echo cannot write $d; done
printf '#!/bin/sh\necho exec works\n' >/tmp/p; chmod +x /tmp/p; /tmp/p`)
	spec.ReadOnly = true
	if w, log := r.run(spec); w.ExitCode != 0 || strings.TrimSpace(log) != "exec works" {
		t.Errorf("%+v %q", w, log)
	}
}

// The kernel kills a job's compiler, not the runner that started it: it must be said all the same.
func testOOM(t *testing.T, h Harness) {
	r := start(t, h)
	info, err := r.Probe(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !info.MemoryLimit {
		t.Skip("this engine cannot limit memory")
	}
	for name, script := range map[string]string{"itself": "exec tail /dev/zero", "its child": "tail /dev/zero; exit $?"} {
		spec := r.spec(script)
		spec.MemoryMB = 24
		w, log := r.run(spec)
		if !w.OOMKilled || w.ExitCode != 137 {
			t.Errorf("%s out of memory: %+v %q", name, w, log)
		}
		if got := r.listed()[w.ID]; !got.OOMKilled {
			t.Errorf("%s out of memory is listed as %+v", name, got)
		}
	}
}

func testNoNetwork(t *testing.T, h Harness) {
	r := start(t, h)
	if _, log := r.run(r.spec(`ls /sys/class/net`)); strings.TrimSpace(log) != "lo" {
		t.Errorf("without a network there is %q", log)
	}
	for _, mode := range []string{"", "host"} {
		spec := r.spec(`ls /sys/class/net | wc -l`)
		spec.Network = mode
		if w, log := r.run(spec); w.ExitCode != 0 || strings.TrimSpace(log) == "1" {
			t.Errorf("network %q: %+v %q", mode, w, log)
		}
	}
}

func testEnvironment(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec(`printf '<%s>' "$TRICKY" "$EMPTY" "$JIT"`)
	tricky := "a 'quoted' \"double\" $HOME `tick` \\n\nsecond line\ttab é ✓ #;&|"
	jit := strings.Repeat("eyJ0b2tlbiI6InMzY3IzdCJ9", 300)
	spec.Env = map[string]string{"TRICKY": tricky, "EMPTY": "", "JIT": jit}
	if _, log := r.run(spec); log != "<"+tricky+"><><"+jit+">" && log != "<"+tricky+"><><"+jit+">\n" {
		t.Errorf("the environment arrived as %q", log)
	}
}

func testSecretHidden(t *testing.T, h Harness) {
	r := start(t, h)
	spec := r.spec(sleeper)
	const secret = "jit-s3cr3t-4711-never-in-arguments"
	spec.Env = map[string]string{"ZOOMIES_JIT_CONFIG": secret}
	stop := make(chan struct{})
	seen := make(chan string, 1)
	go func() { // while it starts, too
		defer close(seen)
		for {
			if found := argumentsWith(secret); found != "" {
				seen <- found
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	w := r.create(spec)
	r.says(w.ID, "ready")
	close(stop)
	if found := <-seen; found != "" {
		t.Errorf("the secret is in the arguments of %s", found)
	}
}

func argumentsWith(secret string) string {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), secret) {
			return path
		}
	}
	return ""
}

func testForeign(t *testing.T, h Harness) {
	if h.Foreign == nil {
		t.Skip("nothing else can be on this backend")
	}
	r := start(t, h)
	id, runs := h.Foreign(t, nil)
	if _, ok := r.listed()[id]; ok {
		t.Error("a foreign workload is listed")
	}
	if _, err := r.Inspect(r.ctx, id); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("inspect: %v", err)
	}
	if err := r.Stop(r.ctx, id, 0); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("stop: %v", err)
	}
	if _, err := r.Logs(r.ctx, id, backend.LogOptions{}); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("logs: %v", err)
	}
	if err := r.Remove(r.ctx, id); err != nil {
		t.Errorf("remove: %v", err)
	}
	if !runs() {
		t.Error("a foreign workload was ended")
	}
}

func testOtherHost(t *testing.T, h Harness) {
	r, other := start(t, h), start(t, h)
	w := r.create(r.spec(sleeper))
	if all := other.listed(); len(all) != 0 {
		t.Errorf("another host lists %v", all)
	}
	if err := other.Stop(other.ctx, w.ID, 0); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("another host stops: %v", err)
	}
	if err := other.Remove(other.ctx, w.ID); err != nil {
		t.Errorf("another host removes: %v", err)
	}
	if got := r.listed()[w.ID]; got.Phase != backend.Running {
		t.Errorf("after another host's calls: %+v", got)
	}
}

func testStats(t *testing.T, h Harness) {
	r := start(t, h)
	info, err := r.Probe(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.Rootless && !info.CgroupV2 {
		t.Skip("without root nothing is counted for one container on version 1 cgroups")
	}
	w := r.create(r.spec(`echo ready; while :; do :; done`))
	r.says(w.ID, "ready")
	first, err := r.Stats(r.ctx, w.ID)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("stats: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.until("the CPU time grows", func() bool {
		next, err := r.Stats(r.ctx, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		return next.CPUTime > first.CPUTime+20*time.Millisecond && next.At.After(first.At)
	})
	if err := r.Stop(r.ctx, w.ID, 0); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Stats(r.ctx, w.ID); err == nil {
		t.Errorf("a workload that ended was sampled: %+v", s)
	}
}
