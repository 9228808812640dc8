package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func TestRunnerImage(t *testing.T) {
	t.Parallel()
	const repo = "localhost/zoomies/runner:"
	for name, tt := range map[string]struct {
		pool store.Pool
		want string
		bad  bool
	}{
		"nothing said is the first of the catalogue": {store.Pool{}, repo + "debian-13", false},
		"a system of the catalogue":                  {store.Pool{Image: "debian-12"}, repo + "debian-12", false},
		"a system with a daemon's client":            {store.Pool{Image: "debian-12", Daemon: "podman"}, repo + "debian-12-podman", false},
		"a catalogue reference gets its variant":     {store.Pool{Image: repo + "debian-13", Daemon: "docker"}, repo + "debian-13-docker", false},
		"another image is left alone":                {store.Pool{Image: "example.org/mine:1"}, "example.org/mine:1", false},
		"and with a daemon too, but named":           {store.Pool{Image: "example.org/mine:1", Daemon: "docker"}, "example.org/mine:1", true},
		"a digest has no variant":                    {store.Pool{Image: repo + "debian-13@sha256:0", Daemon: "docker"}, repo + "debian-13@sha256:0", true},
		"a system that does not exist":               {store.Pool{Image: "debian-99"}, "debian-99", true},
	} {
		got, err := runnerImage(tt.pool)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
		}
	}
	if got := daemonImage(store.Pool{Daemon: "podman"}); got != catalogued().Daemon.Reference {
		t.Errorf("a Podman pool's sidecar is %q", got)
	}
	if got := daemonImage(store.Pool{Daemon: "podman", DaemonImage: "example.org/d:1"}); got != "example.org/d:1" {
		t.Errorf("a pool's own sidecar image is replaced by %q", got)
	}
}

// A25: the warning comes before GitHub refuses the runner, and only for images that carry ours.
func TestImageProblemsComeAndGo(t *testing.T) {
	t.Parallel()
	c := &Controller{problems: newProblems()}
	pools := []store.Pool{{ID: "pool_1", Name: "ours"}, {ID: "pool_2", Name: "theirs", Image: "example.org/mine:1", Daemon: "docker"}}
	released := catalogued().Runner.Released.Time()
	codes := func(at time.Time) []problems.Code {
		c.judgeImages(pools, at)
		var out []problems.Code
		for _, p := range c.Problems() {
			out = append(out, p.Code)
		}
		return out
	}
	if got := codes(released.AddDate(0, 0, 19)); !slices.Equal(got, []problems.Code{problems.ClientMissing}) {
		t.Errorf("on day 19: %v", got)
	}
	if got := codes(released.AddDate(0, 0, 20)); !slices.Equal(got, []problems.Code{problems.ClientMissing, problems.RunnerAging}) {
		t.Errorf("on day 20: %v", got)
	}
	pools[1].Image = "debian-13"
	if got := codes(released.AddDate(0, 0, 1)); len(got) != 0 {
		t.Errorf("once mended: %v", got)
	}
}
