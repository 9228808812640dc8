package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"
)

func hostsOf(p Plan) []string {
	out := []string{}
	for _, a := range of(p, Create) {
		out = append(out, a.HostID[len("hst_"):])
	}
	return out
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	cordoned := func(h *Host) { h.Cordoned = true }
	lost := func(h *Host) { h.Lost = true }
	beat := func(d time.Duration) func(*Host) { return func(h *Host) { h.LastHeartbeat = ago(d) } }
	backends := func(b ...string) func(*Host) { return func(h *Host) { h.Backends = b } }
	on := func(os, arch string) func(*Host) { return func(h *Host) { h.OS, h.Arch = os, arch } }
	zone := func(z string) func(*Host) {
		return func(h *Host) { h.Labels = map[string]string{"zone": z, "disk": "ssd"} }
	}
	want := func(os, arch string) func(*Pool) { return func(p *Pool) { p.OS, p.Arch = os, arch } }
	inZone := func(z string) func(*Pool) { return func(p *Pool) { p.HostSelector = map[string]string{"zone": z} } }
	elsewhere := func(h string) func(*Runner) { return func(r *Runner) { r.HostID = "hst_" + h } }
	for _, c := range []struct {
		rule  string
		fleet *fleet
		want  []string // hosts, one for each job
	}{
		{"the host with the most free slots comes first, ties by name",
			newFleet().pool("p", nil).host("b", 2).host("a", 2).host("c", 3).jobs(6, nil), []string{"c", "a", "b", "c", "a", "b"}},
		{"live runners of every pool hold slots", newFleet().pool("p", nil).pool("q", labels("q")).host("a", 3).host("b", 2).jobs(1, nil).
			runner("r1", "q", busy, elsewhere("a")).runner("r2", "gone", busy, elsewhere("a")), []string{"b"}},
		{"draining runners hold slots", newFleet().pool("p", nil).host("a", 1).host("b", 1).jobs(2, nil).runner("r", "p", "draining", elsewhere("a")), []string{"b"}},
		{"failed runners hold none", newFleet().pool("p", nil).pool("q", labels("q")).host("a", 1).jobs(1, nil).runner("r", "q", failed, elsewhere("a")), []string{"a"}},
		{"a runner on a host that is gone holds none", newFleet().pool("p", nil).pool("q", labels("q")).host("a", 1).jobs(1, nil).runner("r", "q", busy, elsewhere("zz")), []string{"a"}},
		{"a host over its capacity takes none", newFleet().pool("p", nil).pool("q", labels("q")).host("a", 1).host("b", 1).jobs(2, nil).
			runner("r1", "q", busy).runner("r2", "q", busy), []string{"b"}},
		{"a host whose disk is full takes none", newFleet().pool("p", nil).host("a", 9, disk(95)).host("b", 1, disk(94)).jobs(2, nil), []string{"b"}},
		{"a cordoned host takes none", newFleet().pool("p", nil).host("a", 9, cordoned).host("b", 1).jobs(2, nil), []string{"b"}},
		{"a lost host takes none", newFleet().pool("p", nil).host("a", 9, lost).host("b", 1).jobs(2, nil), []string{"b"}},
		{"a host silent for 90 s takes none", newFleet().pool("p", nil).host("a", 9, beat(90*time.Second)).host("b", 1, beat(89*time.Second)).jobs(2, nil), []string{"b"}},
		{"a host that was never heard takes none", newFleet().pool("p", nil).host("a", 9, func(h *Host) { h.LastHeartbeat = time.Time{} }).host("b", 1).jobs(2, nil), []string{"b"}},
		{"a host without the backend takes none", newFleet().pool("p", nil).host("a", 9, backends("docker")).host("b", 1, backends("docker", "Podman")).jobs(2, nil), []string{"b"}},
		{"a host of another platform takes none", newFleet().pool("p", nil, want("linux", "arm64")).host("a", 9).host("b", 1, on("linux", "aarch64")).jobs(2, nil), []string{"b"}},
		{"a platform is the same in any spelling", newFleet().pool("p", nil, want("Linux", "X64")).host("a", 1, on("linux", "amd64")).jobs(1, nil), []string{"a"}},
		{"a host of no known platform fits any", newFleet().pool("p", nil, want("linux", "arm64")).host("a", 1, on("", "")).jobs(1, nil), []string{"a"}},
		{"half a platform constrains by that half", newFleet().pool("p", nil, want("", "arm64")).host("a", 9).host("b", 1, on("windows", "arm64")).jobs(2, nil), []string{"b"}},
		{"a host must match the whole selector", newFleet().pool("p", nil, inZone("1")).host("a", 9).host("b", 9, zone("2")).host("c", 1, zone("1")).jobs(2, nil), []string{"c"}},
		{"an empty selector value needs the label", newFleet().pool("p", nil, inZone("")).host("a", 9).host("b", 1, zone("")).jobs(2, nil), []string{"b"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			equal(t, "hosts", hostsOf(c.fleet.decide()), c.want)
		})
	}
}

func TestPoolsShareScarceSlots(t *testing.T) {
	t.Parallel()
	prio := func(n int) func(*Pool) { return func(p *Pool) { p.Priority = n } }
	aged := func(d time.Duration) func(*Job) { return func(j *Job) { j.QueuedAt = ago(d) } }
	for _, c := range []struct {
		rule  string
		fleet *fleet
		want  map[string]int
	}{
		{"pools of one priority take turns", newFleet().host("h", 5).pool("a", labels("a")).pool("b", labels("b")).pool("c", labels("c")).
			jobs(9, labels("a")).jobs(9, labels("b")).jobs(1, labels("c")), map[string]int{"a": 2, "b": 2, "c": 1}},
		{"a higher priority is served first", newFleet().host("h", 5).pool("a", labels("a")).pool("b", labels("b"), prio(1)).
			jobs(9, labels("a")).jobs(4, labels("b")), map[string]int{"a": 1, "b": 4}},
		{"the pool whose job has waited longest takes the first turn", newFleet().host("h", 1).pool("a", labels("a")).pool("b", labels("b")).
			jobs(9, labels("a")).jobs(1, labels("b"), aged(time.Minute)), map[string]int{"b": 1}},
		{"a job comes before a warm runner", newFleet().host("h", 1).pool("a", labels("a"), func(p *Pool) { p.Min = 1 }).pool("b", labels("b")).
			jobs(1, labels("b")), map[string]int{"b": 1}},
		{"the budget bounds one pass", newFleet().host("h", 50).tune(func(t *Tunables) { t.TickBudget = 3 }).pool("a", labels("a")).pool("b", labels("b")).
			jobs(9, labels("a")).jobs(9, labels("b")), map[string]int{"a": 2, "b": 1}},
		{"the budget goes to the higher priority", newFleet().host("h", 50).tune(func(t *Tunables) { t.TickBudget = 3 }).pool("a", labels("a")).pool("b", labels("b"), prio(1)).
			jobs(9, labels("a")).jobs(9, labels("b")), map[string]int{"b": 3}},
		{"a pool that fits nowhere takes no turn", newFleet().host("h", 3).pool("a", labels("a"), func(p *Pool) { p.Backend = "docker" }).pool("b", labels("b")).
			jobs(9, labels("a")).jobs(9, labels("b")), map[string]int{"b": 3}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			if got := perPool(c.fleet.decide()); !maps.Equal(got, c.want) {
				t.Errorf("creates are %v, want %v", got, c.want)
			}
		})
	}
}

func TestPriorityOrdersTheCreates(t *testing.T) {
	t.Parallel()
	plan := newFleet().host("h", 9).pool("a", labels("a")).pool("b", labels("b"), func(p *Pool) { p.Priority = 5 }).
		jobs(2, labels("a")).jobs(2, labels("b")).decide()
	var got []string
	for _, a := range of(plan, Create) {
		got = append(got, a.PoolID)
	}
	equal(t, "pools", got, []string{"pool_b", "pool_b", "pool_a", "pool_a"})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	cordon := func(h *Host) { h.Cordoned = true }
	silent := func(h *Host) { h.LastHeartbeat = ago(time.Hour) }
	lost := func(h *Host) { h.Lost = true }
	docker := func(h *Host) { h.Backends = []string{"process", "docker"} }
	none := func(h *Host) { h.Backends = nil }
	windows := func(h *Host) { h.OS = "windows" }
	zone := func(p *Pool) { p.HostSelector = map[string]string{"zone": "1", "disk": "ssd"} }
	for _, c := range []struct {
		rule  string
		fleet *fleet
		want  *Blocked
	}{
		{"nothing is blocked while there is room", newFleet().host("a", 1).pool("p", nil).jobs(1, nil), nil},
		{"a spent budget is no block", newFleet().host("a", 9).tune(func(t *Tunables) { t.TickBudget = 1 }).pool("p", nil).jobs(4, nil), nil},
		{"the maximum is no block", newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 1 }).jobs(4, nil), nil},
		{"full hosts are a normal state", newFleet().host("a", 1).host("b", 0).pool("p", nil).jobs(3, nil),
			&Blocked{Wanted: 2, Causes: []Cause{{"full", 2}}, AtCapacity: true, Fix: "Wait for a runner to finish, raise the capacity of a host, or join another host."}},
		{"full hosts behind a spent budget are told", newFleet().host("a", 1).tune(func(t *Tunables) { t.TickBudget = 1 }).pool("p", nil).jobs(3, nil),
			&Blocked{Wanted: 2, Causes: []Cause{{"full", 1}}, AtCapacity: true, Fix: "Wait for a runner to finish, raise the capacity of a host, or join another host."}},
		{"no host at all", newFleet().pool("p", nil).jobs(1, nil), &Blocked{Wanted: 1, Causes: []Cause{}, Fix: "Join a host: the fleet has none."}},
		{"causes are counted, the most frequent first", newFleet().pool("p", nil, func(p *Pool) { p.OS = "linux" }).jobs(1, nil).
			host("a", 0).host("b", 1, windows).host("c", 1, windows).host("d", 1, silent).host("e", 1, lost).host("f", 1, docker).host("g", 1, docker).host("h", 1, docker),
			&Blocked{Wanted: 1, Causes: []Cause{{"no podman", 3}, {"platform", 2}, {"full", 1}, {"lost", 1}, {"unhealthy", 1}}, AtCapacity: true,
				Backends: []string{"docker", "process"}, Fix: "Bring back 2 hosts whose agent has gone silent: check its power, its network and the agent."}},
		{"a full disk", newFleet().pool("p", nil).jobs(1, nil).host("a", 1, disk(96)), &Blocked{Wanted: 1, Causes: []Cause{{"disk full", 1}},
			Fix: "Free space on host a: its disk is 96 % full, and from 95 % on a host takes no new runner. It takes them again by itself."}},
		{"full disks, and a full host", newFleet().pool("p", nil).jobs(2, nil).host("c", 1).host("b", 1, disk(100)).host("a", 1, disk(95)),
			&Blocked{Wanted: 1, AtCapacity: true, Causes: []Cause{{"disk full", 2}, {"full", 1}},
				Fix: "Free space on one of 2 hosts, such as a: its disk is 95 % full, and from 95 % on a host takes no new runner. It takes them again by itself."}},
		{"a cordoned host", newFleet().pool("p", nil).jobs(1, nil).host("a", 1, cordon), &Blocked{Wanted: 1, Causes: []Cause{{"cordoned", 1}}, Fix: "Uncordon the one host that would fit."}},
		{"another backend is offered", newFleet().pool("p", nil).jobs(1, nil).host("a", 1, docker),
			&Blocked{Wanted: 1, Causes: []Cause{{"no podman", 1}}, Backends: []string{"docker", "process"}, Fix: "Install podman on a host, or move the pool to docker or process, which fitting hosts offer."}},
		{"a backend of a host that would not fit is not offered", newFleet().pool("p", nil).jobs(1, nil).host("a", 1, docker, cordon).host("b", 1, docker, silent).host("c", 1, docker, lost),
			&Blocked{Wanted: 1, Causes: []Cause{{"no podman", 3}}, Fix: "Make podman usable on a host."}},
		{"no backend anywhere", newFleet().pool("p", nil).jobs(1, nil).host("a", 1, none), &Blocked{Wanted: 1, Causes: []Cause{{"no podman", 1}}, Fix: "Make podman usable on a host."}},
		{"no host with the labels", newFleet().pool("p", nil, zone).jobs(1, nil).host("a", 1),
			&Blocked{Wanted: 1, Causes: []Cause{{"selector", 1}}, Fix: "Label a host disk=ssd, zone=1, or change the pool's host selector."}},
		{"no host of the platform", newFleet().pool("p", nil, func(p *Pool) { p.Arch = "aarch64" }).jobs(1, nil).host("a", 1),
			&Blocked{Wanted: 1, Causes: []Cause{{"platform", 1}}, Fix: "Join a host of platform arm64, or change the pool's."}},
		{"a hold says why and until when", newFleet().host("a", 9).jobs(2, nil).
			pool("p", nil, func(p *Pool) { p.Held, p.HeldUntil = "GitHub asked us to slow down", now.Add(time.Minute) }),
			&Blocked{Wanted: 2, Until: now.Add(time.Minute), Fix: "Nothing to do but wait until the hold is over: GitHub asked us to slow down."}},
		{"draining runners under the maximum", newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 2 }).jobs(2, nil).runner("r", "p", "draining"),
			&Blocked{Wanted: 1, AtCapacity: true, Fix: "Wait for the draining runners to exit, or raise the maximum of 2."}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			got := decision(t, c.fleet.decide(), "p").Blocked
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestAHeldPoolStillShrinks(t *testing.T) {
	t.Parallel()
	plan := newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Held = "wait" }).
		runner("i", "p", idle, func(r *Runner) { r.StateAt = ago(time.Hour) }).runner("s", "p", registering).decide()
	equal(t, "retires", ids(plan, Retire), []string{"i"})
	equal(t, "withdraws", ids(plan, Withdraw), []string{"s"})
}

func TestManyRoundsKeepEveryHostWithinItsSlots(t *testing.T) {
	t.Parallel()
	f := newFleet()
	for i := range 7 {
		f.host(fmt.Sprint("h", i), i)
	}
	f.pool("a", labels("a"), func(p *Pool) { p.Max = 99 }).pool("b", labels("b"), func(p *Pool) { p.Max = 99; p.OS = "linux" })
	plan := f.jobs(20, labels("a")).jobs(20, labels("b")).decide()
	got := map[string]int{}
	for _, h := range hostsOf(plan) {
		got[h]++
	}
	want := map[string]int{"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
	if !maps.Equal(got, want) {
		t.Errorf("hosts hold %v, want %v", got, want)
	}
	if n := perPool(plan); n["a"] != 11 || n["b"] != 10 {
		t.Errorf("pools get %v, want an even share", n)
	}
}

// disk fills a host's disk to so many percent.
func disk(percent int) func(*Host) { return func(h *Host) { h.DiskUsed = percent } }
