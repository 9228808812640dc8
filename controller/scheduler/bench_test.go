package scheduler

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// benchSnapshot is a fleet in the middle of a rush: half of its slots busy, far more jobs than
// slots, labels written in several ways, some pools with a selector, a platform or a limit.
func benchSnapshot(pools, hosts, jobs int) Snapshot {
	f := newFleet()
	for i := range pools {
		f.pool(fmt.Sprintf("pool-%03d", i), labels("self-hosted", "linux", fmt.Sprintf("team-%d", i), fmt.Sprintf("size-%d", i%5)), func(p *Pool) {
			p.Min, p.Max, p.Priority = i%3, 200, i%4
			if i%4 == 0 {
				p.HostSelector = map[string]string{"zone": fmt.Sprint(i % 3)}
			}
			if i%5 == 0 {
				p.OS, p.Arch = "linux", "amd64"
			}
			if i%10 == 0 {
				p.RepoLimit = 50
			}
		})
	}
	for i := range hosts {
		f.host(fmt.Sprintf("host-%03d", i), 20, func(h *Host) {
			h.Backends = []string{"docker", "podman"}
			h.Labels = map[string]string{"zone": fmt.Sprint(i % 3)}
			h.Cordoned = i%50 == 0
		})
	}
	for i := range hosts * 10 {
		f.runner(fmt.Sprintf("run_%05d", i), fmt.Sprintf("pool-%03d", i%pools), []string{busy, busy, busy, idle, registering, failed}[i%6], func(r *Runner) {
			r.HostID, r.Repository = fmt.Sprintf("hst_host-%03d", i%hosts), fmt.Sprintf("acme/repo-%d", i%40)
			r.FinishedAt = ago(9 * time.Minute)
		})
	}
	for i := range jobs {
		f.job(fmt.Sprintf("job_%05d", i), labels("self-hosted", []string{"linux", "Linux", "LINUX"}[i%3], fmt.Sprintf("Team-%d", i*7%(pools+1)), "x64"), func(j *Job) {
			j.Repository, j.QueuedAt = fmt.Sprintf("acme/repo-%d", i%40), ago(time.Duration(i*7919%jobs)*time.Millisecond)
		})
	}
	return f.Snapshot
}

// distinct gives every job labels that no other job has, and every repository a pool of its own.
func distinct(s Snapshot) Snapshot {
	for i := range s.Jobs {
		s.Jobs[i].Labels = append(s.Jobs[i].Labels, fmt.Sprint("only-", i))
	}
	for i := range s.Pools {
		if i%2 == 0 {
			s.Pools[i].Repository = fmt.Sprintf("acme/repo-%d", i%40)
		}
	}
	return s
}

func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name string
		s    Snapshot
	}{
		{"12x8x1000", benchSnapshot(12, 8, 1000)},
		{"100x500x10000", benchSnapshot(100, 500, 10000)},
		{"100x500x10000-distinct", distinct(benchSnapshot(100, 500, 10000))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var plan Plan
			before := cpuTime(b)
			for b.Loop() {
				plan = Decide(c.s)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(len(of(plan, Create))), "creates")
		})
	}
}

// cpuTime is what the process has used of all processors, collector included: unlike the wall
// clock, it means something on a machine that others share.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
