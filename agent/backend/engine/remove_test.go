package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func TestARemovalTakesTheWholeWorkloadAndNoOther(t *testing.T) {
	t.Parallel()
	foreign := labels("run_1", backend.RoleDaemon)
	foreign[backend.LabelHost] = "hst_2"
	pair := []Container{
		{ID: "d1", Labels: labels("run_1", backend.RoleDaemon)},
		{ID: "r1", Labels: labels("run_1", backend.RoleRunner)},
		{ID: "r2", Labels: labels("run_2", backend.RoleRunner)},
	}
	volumes := []Volume{
		{"v1", labels("run_1", backend.RoleDaemon)}, {"v2", labels("run_2", backend.RoleDaemon)},
		{"v3", labels("run_3", backend.RoleDaemon)}, {"v9", foreign},
	}
	for _, c := range []struct {
		name, id   string
		containers []Container
		known      string // the runner of id, as remembered
		want       []string
	}{
		{"by the runner", "r1", pair, "", []string{"containers", "remove r1", "remove d1", "volumes", "remove volume v1"}},
		{"by the sidecar", "d1", pair, "", []string{"containers", "remove r1", "remove d1", "volumes", "remove volume v1"}},
		{"one that has no volumes", "r2", pair, "", []string{"containers", "remove r2"}},
		{"by a part that is gone", "x", pair[:1], "run_1", []string{"containers", "remove d1", "volumes", "remove volume v1"}},
		{"one of which only volumes are left", "x", nil, "run_3", []string{"containers", "volumes", "remove volume v3"}},
		{"one that nobody remembers", "x", pair, "", []string{"containers", "containers", "volumes", "remove volume v3"}},
	} {
		s := &script{containers: c.containers, volumes: volumes}
		r := &Runners{HostID: "hst_1"}
		if c.known != "" {
			r.See([]backend.Workload{{ID: c.id, RunnerID: c.known}})
		}
		if err := r.Remove(t.Context(), s, c.id); err != nil || !slices.Equal(s.asked, c.want) {
			t.Errorf("%s: %q, %v", c.name, s.asked, err)
		}
	}
}

func TestASweepSparesARunnerThatIsBeingCreated(t *testing.T) {
	t.Parallel()
	s := &script{volumes: []Volume{{"v1", labels("run_1", backend.RoleDaemon)}}}
	r := &Runners{HostID: "hst_1"}
	_, end, err := r.Begin(plain())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if err := r.Remove(t.Context(), s, "x"); err != nil || count(s.asked, "remove volume v1") != 0 {
		t.Errorf("%q, %v", s.asked, err)
	}
}

func TestWhatCouldNotBeRemovedIsRemembered(t *testing.T) {
	t.Parallel()
	s := &script{
		containers: []Container{{ID: "r1", Labels: labels("run_1", backend.RoleRunner)}},
		fail:       map[string][]error{"remove r1": {errors.New("broken")}},
	}
	r := &Runners{HostID: "hst_1"}
	r.See([]backend.Workload{{ID: "r1", RunnerID: "run_1"}, {ID: "d1", RunnerID: "run_1"}})
	if err := r.Remove(t.Context(), s, "r1"); err == nil || r.members.Runner("d1") != "run_1" {
		t.Errorf("%v; d1 is of %q", err, r.members.Runner("d1"))
	}
	if err := r.Remove(t.Context(), s, "d1"); err != nil || r.members.Runner("d1") != "" {
		t.Errorf("%v; d1 is still of %q", err, r.members.Runner("d1"))
	}
}

func TestAListingIsRepeatedWhileThingsVanish(t *testing.T) {
	t.Parallel()
	vanished := errors.New("vanished")
	is := func(err error) bool { return errors.Is(err, vanished) }
	tries := 0
	if n, err := Again(is, func() (int, error) {
		if tries++; tries < 3 {
			return 0, vanished
		}
		return tries, nil
	}); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	tries = 0
	if _, err := Again(is, func() (int, error) { tries++; return 0, vanished }); !is(err) || tries != 5 {
		t.Errorf("%d tries: %v", tries, err)
	}
}
