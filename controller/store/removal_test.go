package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// Each case says what became of a runner's tasks, one after another, and then asks for its removal.
func TestEnqueueRemove(t *testing.T) {
	t.Parallel()
	type step func(t *testing.T, s *store.Store, f storetest.Fleet, r store.Runner)
	ask := func(t *testing.T, s *store.Store, f storetest.Fleet, r store.Runner) store.Removal {
		t.Helper()
		rm, err := s.EnqueueRemove(t.Context(), store.Task{HostID: f.Host.ID, RunnerID: r.ID, Payload: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		return rm
	}
	created := func(t *testing.T, s *store.Store, _ storetest.Fleet, r store.Runner) {
		t.Helper()
		if _, err := s.EnqueueCreate(t.Context(), r.ID, 42, store.Task{Payload: []byte("jit")}); err != nil {
			t.Fatal(err)
		}
	}
	leased := func(t *testing.T, s *store.Store, f storetest.Fleet, _ store.Runner) {
		t.Helper()
		lease(t, s, f.Host.ID)
	}
	answered := func(kind string, ok bool) step {
		return func(t *testing.T, s *store.Store, f storetest.Fleet, r store.Runner) {
			t.Helper()
			ts, err := s.Tasks(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range ts {
				if task.Kind != kind || task.State != store.TaskLeased {
					continue
				}
				if _, _, err := s.FinishTask(t.Context(), f.Host.ID, task.ID, task.Attempt, ok, ""); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Fatalf("no %s is leased: %+v", kind, ts)
		}
	}
	asked := func(t *testing.T, s *store.Store, f storetest.Fleet, r store.Runner) { t.Helper(); ask(t, s, f, r) }
	for name, c := range map[string]struct {
		steps []step
		want  store.Removal
	}{
		"no create was written":             {nil, store.Removal{Gone: true}},
		"its create was never handed out":   {[]step{created}, store.Removal{Gone: true}},
		"its create is with the host":       {[]step{created, leased}, store.Removal{Fresh: true}},
		"it was started":                    {[]step{created, leased, answered(kindCreate, true)}, store.Removal{Fresh: true}},
		"it was asked for":                  {[]step{created, leased, asked}, store.Removal{}},
		"it was removed":                    {[]step{created, leased, answered(kindCreate, true), asked, leased, answered(kindRemove, true)}, store.Removal{Gone: true}},
		"its removal failed":                {[]step{created, leased, answered(kindCreate, true), asked, leased, answered(kindRemove, false)}, store.Removal{Fresh: true}},
		"it was started after its removal":  {[]step{created, leased, asked, leased, answered(kindRemove, true), answered(kindCreate, true)}, store.Removal{Fresh: true}},
		"it was removed, and never started": {[]step{created, leased, asked, leased, answered(kindRemove, true), answered(kindCreate, false)}, store.Removal{Gone: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c0 := newClock()
			s := storetest.OpenWith(t, store.Options{Now: c0.now})
			f := storetest.Seed(t, s)
			r := newRunner(t, s, f)
			for _, do := range c.steps {
				do(t, s, f, r)
				c0.step(time.Second)
			}
			if rm := ask(t, s, f, r); rm.Gone != c.want.Gone || rm.Fresh != c.want.Fresh || (rm.Task.ID == "") != rm.Gone {
				t.Errorf("got %+v, want %+v", rm, c.want)
			}
			if task, err := s.LeaseTask(t.Context(), f.Host.ID, minute); err != nil || task != nil && task.Kind == kindCreate {
				t.Errorf("after the removal was asked for the host is offered %+v: %v", task, err)
			}
		})
	}
}

// However many ask while the host answers, a removal that was done is not asked for again.
func TestARemovalIsAskedForOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	for range 20 {
		r := newRunner(t, s, f)
		if _, err := s.EnqueueCreate(t.Context(), r.ID, 42, store.Task{Payload: []byte("jit")}); err != nil {
			t.Fatal(err)
		}
		create := lease(t, s, f.Host.ID)
		if _, _, err := s.FinishTask(t.Context(), f.Host.ID, create.ID, create.Attempt, true, ""); err != nil {
			t.Fatal(err)
		}
		ask := func() {
			if _, err := s.EnqueueRemove(t.Context(), store.Task{HostID: f.Host.ID, RunnerID: r.ID, Payload: []byte("{}")}); err != nil {
				t.Error(err)
			}
		}
		ask()
		remove := lease(t, s, f.Host.ID)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(ask)
		}
		wg.Go(func() {
			if _, _, err := s.FinishTask(t.Context(), f.Host.ID, remove.ID, remove.Attempt, true, ""); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if ts, err := s.Tasks(t.Context(), r.ID); err != nil || len(ts) != 2 {
			t.Fatalf("its tasks are %+v: %v", ts, err)
		}
	}
}
