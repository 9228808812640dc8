package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestCreateRunnersIsAllOrNone(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	mk := func(name, pool, host string) store.Runner {
		return store.Runner{Name: name, PoolID: pool, HostID: host}
	}
	for name, test := range map[string]struct {
		second store.Runner
		want   error
	}{
		"a name twice": {mk("a", f.Pool.ID, f.Host.ID), store.ErrConflict},
		"no pool":      {mk("b", "pool_none", f.Host.ID), store.ErrNotFound},
		"no host":      {mk("b", f.Pool.ID, "hst_none"), store.ErrNotFound},
	} {
		err := s.CreateRunners(t.Context(), []store.Runner{mk("a", f.Pool.ID, f.Host.ID), test.second})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if list, err := s.Runners(t.Context(), store.RunnerFilter{}); err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestRunnersAreFiltered(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	other := storetest.Fleet{Installation: f.Installation, Pool: f.Pool, Host: storetest.Join(t, s, "host-2")}
	byName := make(map[string]string)
	add := func(name string, f storetest.Fleet, state store.RunnerState) {
		c.step(time.Second)
		byName[at(t, s, f, state).ID] = name
	}
	add("idle", f, store.RunnerIdle)
	add("busy elsewhere", other, store.RunnerBusy)
	add("failed", f, store.RunnerFailed)
	middle := c.step(time.Second)
	add("removed", f, store.RunnerRemoved)
	for id, name := range byName {
		if name == "removed" {
			for _, set := range []error{s.SetRunnerDeregistered(t.Context(), id), s.SetRunnerCleaned(t.Context(), id)} {
				if set != nil {
					t.Fatal(set)
				}
			}
			if r, err := s.Runner(t.Context(), id); err != nil || !r.Deregistered || !r.Cleaned {
				t.Error(r, err)
			}
			if r, err := s.RunnerByName(t.Context(), func() string { r, _ := s.Runner(t.Context(), id); return r.Name }()); err != nil || r.ID != id {
				t.Error(r, err)
			}
		}
	}
	for name, test := range map[string]struct {
		f    store.RunnerFilter
		want []string
	}{
		"all":             {store.RunnerFilter{}, []string{"idle", "busy elsewhere", "failed", "removed"}},
		"live":            {store.RunnerFilter{Live: true}, []string{"idle", "busy elsewhere"}},
		"live on a host":  {store.RunnerFilter{Live: true, HostID: f.Host.ID}, []string{"idle"}},
		"states":          {store.RunnerFilter{States: []store.RunnerState{store.RunnerBusy, store.RunnerFailed}}, []string{"busy elsewhere", "failed"}},
		"pool":            {store.RunnerFilter{PoolID: f.Pool.ID, Limit: 1}, []string{"idle"}},
		"installation":    {store.RunnerFilter{InstallationID: "ins_other"}, nil},
		"needs cleanup":   {store.RunnerFilter{NeedsCleanup: true}, []string{"failed"}},
		"finished before": {store.RunnerFilter{FinishedBefore: middle}, []string{"failed"}},
	} {
		list, err := s.Runners(t.Context(), test.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			got = append(got, byName[r.ID])
		}
		if !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	if err := s.SetRunnerCleaned(t.Context(), "run_none"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
