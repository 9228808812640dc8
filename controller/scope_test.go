package controller

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// ended writes a runner of a pool that has ended in that state, with its registration at GitHub if minted.
func (r *rig) ended(p store.Pool, h store.Host, id, repository string, to store.RunnerState, minted bool) {
	r.t.Helper()
	row := store.Runner{
		ID: id, Name: runnerName(r.c().fleet, p.Name, id), PoolID: p.ID, HostID: h.ID, InstallationID: p.InstallationID, Repository: repository, Ephemeral: true,
	}
	if err := r.st.CreateRunners(r.t.Context(), []store.Runner{row}); err != nil {
		r.t.Fatal(err)
	}
	if minted {
		number, _, err := r.gh.Register(repository, row.Name, "zoomies")
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.st.EnqueueCreate(r.t.Context(), id, number, store.Task{Payload: []byte("{}")}); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, _, err := r.st.TransitionRunner(r.t.Context(), id, to, store.Change{Message: "a test says so"}); err != nil {
		r.t.Fatal(err)
	}
}

// A pool of one repository is deleted before what its runners registered there is gone: by the runner's own row, its clean-up and the
// reap still find the place.
func TestRegistrationsOfADeletedRepositoryPoolGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	in := r.install("acme", "acme/widgets")
	p := r.pool(in, func(p *store.Pool) { p.Repository = "acme/widgets" })
	h := joinRow(t, r, "host-1")
	r.ended(p, h, "run_failed", "acme/widgets", store.RunnerFailed, true)
	r.ended(p, h, "run_lost", "acme/widgets", store.RunnerRemoved, false)
	r.ended(p, h, "run_gone", "acme/gone", store.RunnerRemoved, false) // of a repository that was deleted: it hides no other
	if _, _, err := r.gh.Register("acme/widgets", runnerName(r.c().fleet, p.Name, "run_lost"), "zoomies"); err != nil {
		t.Fatal(err) // the answer to its mint was lost
	}
	if err := r.st.DeletePool(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	left := func(want int, after string) {
		t.Helper()
		if regs := r.gh.Runners(); len(regs) != want {
			t.Errorf("after %s there are %+v", after, regs)
		}
	}
	left(2, "the pool's deletion")
	if err := r.c().cleanRunner(t.Context(), "run_failed"); err != nil {
		t.Fatal(err)
	}
	left(1, "the clean-up")
	if err := r.c().reapInstallation(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	left(0, "the reap")
}

// A pool that is moved to another repository takes none of its runners' registrations with it.
func TestRunnerIsDeregisteredWhereItWasRegistered(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	in := r.install("acme", "acme/widgets", "acme/gears")
	p := r.pool(in, func(p *store.Pool) { p.Repository, p.Min = "acme/widgets", 1 })
	r.host("host-1", 10)
	if got := r.idle(); got.Repository != "acme/widgets" {
		t.Errorf("the runner's row says that it is registered at %q", got.Repository)
	}
	p.Repository, p.Min, p.IdleTimeout = "acme/gears", 0, 0
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.c().reconcile.Set()
	r.nothingLeft()
}
