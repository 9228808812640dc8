package scheduler

import (
	"slices"
	"strings"
	"testing"
)

func TestImpliedLabelsAreSetApart(t *testing.T) {
	t.Parallel()
	w := parseLabels(labels(" Self-Hosted", "LINUX", "X64", "gpu", "GPU ", "", "  ", "big"))
	equal(t, "own labels", w.own, labels("big", "gpu"))
	equal(t, "platform labels", w.platform, labels("linux", "x64"))
	if !w.selfHosted || w.os != osBits["linux"] || w.arch != archBits["x64"] {
		t.Errorf("implied labels are not understood: %+v", w)
	}
}

func TestHostedLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		labels []string
		want   bool
	}{
		{labels("ubuntu-latest"), true},
		{labels("Ubuntu-24.04"), true},
		{labels("ubuntu-24.04-arm"), true},
		{labels("ubuntu-slim"), true},
		{labels("windows-2025"), true},
		{labels("macos-15-xlarge"), true},
		{labels("macos-latest-large"), true},
		{labels("self-hosted", "ubuntu-latest"), false}, // asks for a runner of ours
		{labels("ubuntu-latest", "gpu"), false},         // GitHub has no such machine
		{labels("ubuntu-gpu"), false},
		{labels("ubuntu-"), false},
		{labels("ubuntu"), false},
		{labels("linux"), false},
		{labels("gpu"), false},
		{nil, false},
	} {
		if got := parseLabels(c.labels).hosted(); got != c.want {
			t.Errorf("%v: hosted is %v, want %v", c.labels, got, c.want)
		}
	}
}

func TestPlatformsAreTheSameInAnySpelling(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{osName("Darwin"), "macos"}, {osName("macOS"), "macos"}, {osName(" Linux "), "linux"}, {osName("freebsd"), "freebsd"},
		{archName("amd64"), "x64"}, {archName("X86_64"), "x64"}, {archName("aarch64"), "arm64"}, {archName("armv7l"), "arm"}, {archName("riscv64"), "riscv64"},
	} {
		if c[0] != c[1] {
			t.Errorf("got %s, want %s", c[0], c[1])
		}
	}
}

func FuzzParseLabels(f *testing.F) {
	for _, s := range []string{"self-hosted,Linux,X64", " gpu ,GPU", "ubuntu-latest", "", ",,", "\x00,\xff", "İ,ı,K,k", "ubuntu-,ubuntu--1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		in := strings.Split(list, ",")
		w := parseLabels(in)
		if !slices.IsSorted(w.own) || len(slices.Compact(slices.Clone(w.own))) != len(w.own) {
			t.Fatalf("own labels are not a sorted set: %q", w.own)
		}
		for _, l := range w.own {
			if l == "" || l != normalise(l) || l == selfHosted || osBits[l] != 0 || archBits[l] != 0 {
				t.Fatalf("own label %q is not normalised or is implied", l)
			}
		}
		if again := parseLabels(w.own); !slices.Equal(again.own, w.own) {
			t.Fatalf("normalising twice changes %q to %q", w.own, again.own)
		}
		slices.Reverse(in)
		for i := range in {
			in[i] = " " + in[i] + "\t"
		}
		b := parseLabels(in)
		if !slices.Equal(b.own, w.own) || b.os != w.os || b.arch != w.arch || b.selfHosted != w.selfHosted || b.hosted() != w.hosted() {
			t.Fatalf("order or space changes the meaning of %q", list)
		}
		if w.hosted() && (w.selfHosted || len(w.own) == 0) {
			t.Fatalf("%q is not hosted", list)
		}

		// Whatever the labels are, a pool that lists them takes the job that asks for them.
		s := newFleet().pool("p", in).host("a", 1).job("job_1", strings.Split(list, ",")).Snapshot
		plan := Decide(s)
		if len(plan.Unmatched) != 0 || len(of(plan, Create)) != 1 {
			t.Fatalf("a pool with the labels %q does not take a job with them: %+v", list, plan)
		}
	})
}
