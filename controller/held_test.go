package controller

import (
	"log/slog"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// A container that somebody removed while no agent was there to see it must not hold its job up for ever.
func TestRunnerThatItsHostDoesNotHaveIsGivenUp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	st := storetest.OpenWith(t, store.Options{Now: func() time.Time { return now }})
	seed := storetest.Seed(t, st)
	c, err := New(t.Context(), Options{Store: st, Settings: DefaultSettings(), Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	runner := func(states ...store.RunnerState) string {
		id := store.NewID("run_")
		if err := st.CreateRunners(t.Context(), []store.Runner{{ID: id, Name: id, PoolID: seed.Pool.ID, HostID: seed.Host.ID, InstallationID: seed.Installation.ID, Ephemeral: true}}); err != nil {
			t.Fatal(err)
		}
		for _, to := range states {
			if _, _, err := st.TransitionRunner(t.Context(), id, to, store.Change{}); err != nil {
				t.Fatal(err)
			}
		}
		return id
	}
	starting := runner()
	ghost := runner(store.RunnerRegistering, store.RunnerIdle)
	held := runner(store.RunnerRegistering, store.RunnerIdle)
	leaving := runner(store.RunnerRegistering, store.RunnerIdle, store.RunnerDraining)
	now = now.Add(unheldGrace - time.Second)
	young := runner(store.RunnerRegistering)
	state := func(id string) store.RunnerState {
		r, err := st.Runner(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	tell := func() {
		if err := c.noteHeld(t.Context(), seed.Host, []string{held}); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	if got := state(ghost); got != store.RunnerIdle {
		t.Errorf("before the grace is over the ghost is %s", got)
	}
	now = now.Add(time.Second)
	tell()
	for id, want := range map[string]store.RunnerState{
		starting: store.RunnerProvisioning, ghost: store.RunnerFailed, held: store.RunnerIdle, leaving: store.RunnerRemoved, young: store.RunnerRegistering,
	} {
		if got := state(id); got != want {
			t.Errorf("runner %s is %s, want %s", id, got, want)
		}
	}
}
