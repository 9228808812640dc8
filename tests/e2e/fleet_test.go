package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

// quick are settings whose nets are close-meshed, so that what an event missed is caught within a test's patience.
func quick() controller.Settings {
	s := controller.DefaultSettings()
	s.Tick = time.Second
	s.PollInterval = 2 * time.Second
	s.JobRecheck = 3 * time.Second
	s.HeartbeatInterval = time.Second
	return s
}

// start runs a fleet for one test.
func start(t *testing.T, change func(*demo.Options)) *demo.Fleet {
	t.Helper()
	o := demo.Options{
		NodeOptions: demo.NodeOptions{Dir: t.TempDir(), Capacity: 4, Settings: quick(), Logger: testLog()},
		MaxPool:     4, Engine: engine,
	}
	if change != nil {
		change(&o)
	}
	f, err := demo.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// job is a job of the demo's pool that runs a shell command.
func job(name, run string) simgithub.JobSpec {
	return simgithub.JobSpec{
		Repository: demo.Repository, Name: name, Workflow: "ci", Labels: []string{"self-hosted", demo.PoolLabel},
		Steps: []simgithub.Step{{Name: "run", Run: run}},
	}
}

// finish waits until a job has ended as it should.
func finish(t *testing.T, gh *simgithub.Server, id int64, conclusion string) simgithub.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := gh.WaitJob(ctx, id, "completed")
	if err != nil {
		t.Fatalf("job %d did not complete: %v; it is %+v", id, err, gh.Job(id))
	}
	if j.Conclusion != conclusion {
		t.Fatalf("job %d ended as %s, want %s; its log:\n%s", id, j.Conclusion, conclusion, j.Log)
	}
	return j
}

// eventually waits for something that no event tells of, looking every so often.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("this did not happen in %s: %s", patience, what)
		}
	}
}

// nothingLeft waits until no live runner, no container and no registration is left.
func nothingLeft(t *testing.T, f *demo.Fleet) {
	t.Helper()
	var r demo.Report
	eventually(t, "everything is put away", func() bool {
		if err := f.CountLeft(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		return r.RunnersLeft+r.ContainersLeft+r.RegistrationsLeft == 0
	})
}

// runners are all rows, ended ones too.
func runners(t *testing.T, st *store.Store) []store.Runner {
	t.Helper()
	rs, err := st.Runners(t.Context(), store.RunnerFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}
