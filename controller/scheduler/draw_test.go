package scheduler

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMain asks for more draws than rapid's hundred: a decision is cheap, and its rules meet in corners.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		if err := flag.Set("rapid.checks", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// drawSnapshot draws a small fleet in any state it could be in, and some that it should not.
func drawSnapshot(t *rapid.T) Snapshot {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	some := func(name string, from ...string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(from), 0, 3).Draw(t, name)
	}
	age := func(name string, most int) time.Time {
		return ago(time.Duration(rapid.IntRange(-2, most).Draw(t, name)) * time.Second)
	}
	number := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	chance := func(name string, of int) bool { return number(name, 1, of) == 1 }

	s := Snapshot{Now: now, Tunables: DefaultTunables()}
	if chance("lifetime", 3) {
		s.Tunables.MaxLifetime = 10 * time.Minute
	}
	for i := range number("pools", 0, 4) {
		p := Pool{
			ID: fmt.Sprint("pool_", i), Name: pick("name", "a", "b", "c") + fmt.Sprint(i),
			Labels:  some("pool label", "x", "Y", "z", "linux", "ARM64", " x"),
			Backend: pick("backend", "podman", "docker"), OS: pick("os", "", "", "linux", "Windows"), Arch: pick("arch", "", "", "amd64", "arm64"),
			Account: pick("account", "acme", "acme", "globex"), Repository: pick("repository", "", "", "", "acme/App"),
			Min: number("min", 0, 2), Max: number("max", 0, 6), Priority: number("priority", 0, 2),
			Enabled: !chance("disabled", 6), IdleTimeout: time.Duration(number("idle timeout", 0, 300)) * time.Second,
		}
		if chance("selector", 3) {
			p.HostSelector = map[string]string{"zone": pick("zone", "1", "2")}
		}
		if chance("held", 8) {
			p.Held = "GitHub asked us to wait"
		}
		if chance("paused", 6) {
			p.Paused = &Pause{Queue: chance("queue", 2), Since: age("paused since", 600), By: pick("by", "", "ada"), Reason: pick("why", "", "the rack is hot")}
		}
		if chance("delay", 4) {
			p.ScaleUpDelay = 30 * time.Second
		}
		if chance("limit", 3) {
			p.RepoLimit = number("repo limit", 1, 3)
		}
		s.Pools = append(s.Pools, p)
	}
	for i := range number("hosts", 0, 4) {
		h := Host{
			ID: fmt.Sprint("hst_", i), Name: fmt.Sprint(pick("host", "h", "g"), i), OS: pick("host os", "", "linux", "linux", "windows"), Arch: pick("host arch", "", "x64", "aarch64"),
			Backends: some("host backend", "podman", "docker", "Podman"), Capacity: number("capacity", 0, 5),
			Cordoned: chance("cordoned", 6), Lost: chance("lost", 8), DiskUsed: rapid.IntRange(0, 100).Draw(t, "disk"), LastHeartbeat: age("heartbeat", 100),
		}
		if chance("draining", 5) {
			h.Draining, h.Cordoned = true, true
		}
		if chance("labelled", 2) {
			h.Labels = map[string]string{"zone": pick("host zone", "1", "2")}
		}
		s.Hosts = append(s.Hosts, h)
	}
	for i := range number("runners", 0, 12) {
		r := Runner{
			ID: fmt.Sprint("run_", i), PoolID: fmt.Sprint("pool_", number("of pool", 0, 4)), HostID: fmt.Sprint("hst_", number("of host", 0, 4)),
			State:      pick("state", provisioning, registering, idle, idle, busy, busy, "draining", failed),
			Repository: pick("repo", "acme/app", "acme/web"), CreatedAt: age("created", 1500), StateAt: age("state at", 900),
		}
		if r.State == failed {
			r.FinishedAt = age("finished", 700)
		}
		if chance("demand", 2) {
			r.DemandJobID = fmt.Sprint("job_", number("demand job", 0, 12))
		}
		s.Runners = append(s.Runners, r)
	}
	for i := range number("jobs", 0, 12) {
		s.Jobs = append(s.Jobs, Job{
			ID: fmt.Sprint("job_", i), Account: pick("job account", "acme", "acme", "globex"), Repository: pick("job repo", "acme/app", "acme/web"),
			Labels: some("job label", "X", "y", "linux", "arm64", "self-hosted", "ubuntu-latest"),
			State:  pick("job state", queued, queued, queued, inProgress), QueuedAt: age("queued", 60),
		})
	}
	return s
}

func property(t *testing.T, check func(*rapid.T, Snapshot, Plan)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		check(t, s, Decide(s))
	})
}

func runnersBy(s Snapshot, key func(Runner) string, states ...string) map[string]int {
	n := map[string]int{}
	for _, r := range s.Runners {
		if slices.Contains(states, r.State) {
			n[key(r)]++
		}
	}
	return n
}

func byHost(r Runner) string { return r.HostID }
func byPool(r Runner) string { return r.PoolID }

var holding = []string{provisioning, registering, idle, busy, "draining"}
