package scheduler

import (
	"strings"
	"testing"
)

// Each case names the pool that takes the job, or "" for none.
func TestMatching(t *testing.T) {
	t.Parallel()
	platform := func(os, arch string) func(*Pool) { return func(p *Pool) { p.OS, p.Arch = os, arch } }
	on := func(os, arch string) func(*Host) { return func(h *Host) { h.OS, h.Arch = os, arch } }
	offers := func(b string) func(*Host) { return func(h *Host) { h.Backends = []string{b} } }
	in := func(z string) func(*Host) { return func(h *Host) { h.Labels = map[string]string{"zone": z} } }
	zone := func(z string) func(*Pool) { return func(p *Pool) { p.HostSelector = map[string]string{"zone": z} } }
	process := func(p *Pool) { p.Backend = "process" }
	repo := func(r string) func(*Pool) { return func(p *Pool) { p.Repository = r } }
	off := func(p *Pool) { p.Enabled = false }
	cases := []struct {
		rule  string
		fleet *fleet
		job   []string
		want  string
		why   string // part of the reason when there is none
	}{
		{"a pool with every label takes the job", newFleet().pool("a", labels("gpu", "big")), labels("self-hosted", "gpu", "big"), "a", ""},
		{"a job needs all of its labels", newFleet().pool("a", labels("gpu")), labels("gpu", "big"), "", "lacks big"},
		{"the fewest surplus labels win", newFleet().pool("a", labels("gpu", "big", "fast")).pool("b", labels("gpu", "big")), labels("gpu"), "b", ""},
		{"implied labels are no surplus", newFleet().pool("a", labels("gpu", "self-hosted", "linux", "x64")).pool("b", labels("gpu", "big")), labels("gpu"), "a", ""},
		{"one label in two spellings is no surplus", newFleet().pool("b", labels("gpu", "GPU", " Gpu")).pool("c", labels("gpu", "x")), labels("gpu"), "b", ""},
		{"ties go by name", newFleet().pool("b", labels("gpu")).pool("a", labels("gpu")), labels("gpu"), "a", ""},
		{"ties between a pool of the account and one of the repository go by name too", newFleet().pool("b", nil).pool("a", nil, repo("acme/app")), nil, "a", ""},
		{"implied labels alone match any pool", newFleet().pool("a", labels("gpu")), labels("self-hosted", "linux", "x64"), "a", ""},
		{"case and space do not matter", newFleet().pool("a", labels(" GPU")), labels("gpu "), "a", ""},
		{"an os label that contradicts the platform excludes", newFleet().pool("a", nil, platform("linux", "")), labels("windows"), "", "is for linux/x64 and the job asks for windows"},
		{"an arch label that contradicts the platform excludes", newFleet().pool("a", nil, platform("linux", "arm64")), labels("linux", "x64"), "", "is for linux/arm64"},
		{"a platform is known from labels too", newFleet().pool("a", labels("arm64")), labels("x64"), "", "is for linux/arm64"},
		{"a container is Linux unless its pool says otherwise", newFleet().pool("a", nil), labels("windows"), "", "is for linux/x64 and the job asks for windows"},
		{"a container is Linux whatever its host is", newFleet().pool("a", nil).host("w", 9, on("darwin", "")), labels("macos"), "", "is for linux"},
		{"a pool that says that it is for windows is", newFleet().pool("a", nil, platform("windows", "")), labels("windows"), "a", ""},
		{"so is one that lists it", newFleet().pool("a", labels("windows")), labels("windows"), "a", ""},
		{"a pool without an arch is for those of its hosts", newFleet().pool("a", nil), labels("arm64"), "", "is for linux/x64 and the job asks for arm64"},
		{"of all its hosts", newFleet().pool("a", nil).host("b", 9, on("linux", "aarch64")), labels("arm64"), "a", ""},
		{"lost ones too, which come back", newFleet().pool("a", nil).host("b", 9, on("linux", "aarch64"), func(h *Host) { h.Lost = true }), labels("arm64"), "a", ""},
		{"but not those that its selector rules out", newFleet().pool("a", nil, zone("1")).host("b", 9, on("linux", "aarch64"), in("2")).host("c", 9, in("1")), labels("arm64"), "", "is for linux/x64"},
		{"nor those without its backend", newFleet().pool("a", nil).host("b", 9, on("linux", "aarch64"), offers("docker")), labels("arm64"), "", "is for linux/x64"},
		{"a host that has not said what it is may be any", newFleet().pool("a", nil).host("b", 9, on("", "")), labels("arm64"), "a", ""},
		{"a pool without hosts is of any arch", newFleet().pool("a", nil, zone("1")), labels("arm64"), "a", ""},
		{"and Linux all the same", newFleet().pool("a", nil, zone("1")), labels("macos"), "", "is for linux"},
		{"a process is what its host is", newFleet().pool("a", nil, process).host("b", 9, on("windows", "amd64"), offers("process")), labels("windows"), "a", ""},
		{"and nothing else", newFleet().pool("a", nil, process).host("b", 9, on("windows", "amd64"), offers("process")), labels("linux"), "", "is for windows/x64"},
		{"a process without a host is Linux", newFleet().pool("a", nil, process), labels("windows"), "", "is for linux"},
		{"half a platform excludes by that half only", newFleet().pool("a", nil, platform("linux", "")).host("b", 9, on("linux", "armv7l")), labels("linux", "arm"), "a", ""},
		{"platforms match in any spelling", newFleet().pool("a", nil, platform("Darwin", "aarch64")), labels("macOS", "ARM64"), "a", ""},
		{"a platform that GitHub has no label for contradicts every label", newFleet().pool("a", nil, platform("freebsd", "")), labels("linux"), "", "is for freebsd"},
		{"the platform field outweighs a label", newFleet().pool("a", labels("windows"), platform("linux", "")), labels("windows"), "", "is for linux"},
		{"a pool of another account does not match", newFleet().pool("a", nil, func(p *Pool) { p.Account = "globex" }), labels("x"), "", "no pool serves"},
		{"a pool of another repository does not match", newFleet().pool("a", nil, repo("acme/web")), nil, "", "no pool serves"},
		{"a pool of the job's repository matches", newFleet().pool("a", nil, repo("Acme/App")), nil, "a", ""},
		{"a closer pool of the account beats one of the repository", newFleet().pool("a", labels("x"), repo("acme/app")).pool("b", nil), nil, "b", ""},
		{"a disabled pool leaves the job to another", newFleet().pool("a", labels("x"), off).pool("b", labels("x", "y")), labels("x"), "b", ""},
		{"a job that only a disabled pool could take says so", newFleet().pool("a", labels("x"), off), labels("x"), "", "pool a would take it, but is disabled"},
		{"the nearest pool is named", newFleet().pool("a", labels("x")).pool("b", labels("x", "y")), labels("x", "y", "z"), "", "pool b comes nearest, but lacks z"},
		{"of two pools that lack as much, the one on the right platform is nearer", newFleet().pool("a", nil, platform("windows", "")).pool("b", nil), labels("linux", "x"), "", "pool b comes nearest, but lacks x"},
		{"a hosted label that a pool lists is the pool's", newFleet().pool("a", labels("ubuntu-latest")), labels("ubuntu-latest"), "a", ""},
		{"no pool at all", newFleet(), labels("x"), "", "no pool serves"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			plan := c.fleet.host("a", 10).job("job_1", c.job).decide()
			got := ""
			for _, d := range plan.Pools {
				if d.Queued > 0 {
					got = strings.TrimPrefix(d.PoolID, "pool_")
				}
			}
			if got != c.want {
				t.Errorf("the job goes to %q, want %q", got, c.want)
			}
			if (c.want == "") != (len(plan.Unmatched) == 1) {
				t.Errorf("unmatched: %+v", plan.Unmatched)
			}
			if c.want == "" && !strings.Contains(plan.Unmatched[0].Reason, c.why) {
				t.Errorf("the reason is %q, want it to say %q", plan.Unmatched[0].Reason, c.why)
			}
		})
	}
}

func TestManyDistinctLabels(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 500)
	var all []string
	for i := range 200 { // more than one word of a set
		l := "label-" + strings.Repeat("x", i)
		all = append(all, l)
		f.pool(l, labels(l))
	}
	f.pool("all", all, func(p *Pool) { p.Max = 1 })
	for _, l := range all {
		f.job("job_"+l, labels(l))
	}
	f.job("job_two", labels(all[3], all[190]))
	got := perPool(f.decide())
	for _, l := range append(all, "all") {
		if got[l] != 1 {
			t.Errorf("pool %s got %d creates, want 1", l, got[l])
		}
	}
}
