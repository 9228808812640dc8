package providertest

import (
	"github.com/zoomies-fleet/zoomies/provider"
)

var deleteCases = []Case{
	{"delete is idempotent", func(r *rig) {
		m := r.row()
		r.remove(m) // what never was
		r.create(m)
		r.remove(m)
		for range 3 {
			r.remove(m)
		}
	}},
	{"delete takes away what is half made", func(r *rig) {
		r.between(func(*rig, *machine) {}, func(r *rig, m *machine, _ bool) { r.remove(m) })
	}},
	{"delete leaves nothing whichever answer is lost", func(r *rig) {
		r.losses((*rig).ready, func(r *rig, m *machine) { r.remove(m) })
	}},
	{"delete leaves nothing whichever answer is lost and however often the controller dies", func(r *rig) {
		r.losses((*rig).ready, func(r *rig, m *machine) {
			if err := r.dying(m, provider.Provider.Delete); err != nil {
				r.Fatalf("delete: %v", err)
			}
			r.gone(m)
		})
	}},
	{"delete is done only once nothing is there", func(r *rig) {
		m := r.ready()
		for n := range 3 * rounds {
			s, err := r.step(m, r.p.Delete)
			switch {
			case err == nil && s.Done:
				r.gone(m)
				return
			case err != nil && !is(err, provider.ErrLocked, provider.ErrTransient, provider.ErrUnknownOutcome):
				r.Fatalf("delete: %v", err)
			case err == nil:
				m.Operation = s.Operation
			}
			if n%3 == 2 { // two calls of three are made while nothing has got on
				r.pass()
			}
		}
		r.Fatalf("delete is never done")
	}},
	{"delete is not misled by an old list", func(r *rig) {
		r.needs(r.w.Freeze != nil, "keep its listing old")
		r.w.Freeze()
		m := r.ready() // the list shows nothing
		r.remove(m)
	}},
	{"delete of what was deleted behind our back leaves no drive", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		r.between(func(r *rig, m *machine) { r.w.Vanish(m.Resource.ID) }, func(r *rig, m *machine, _ bool) {
			r.remove(m)
		})
	}},
	{"delete leaves what is protected", func(r *rig) {
		r.needs(r.w.Protect != nil, "protect a machine")
		m := r.ready()
		r.w.Protect(m.Resource.ID, true)
		if err := r.finish(m, r.p.Delete); !is(err, provider.ErrConflict) {
			r.Errorf("delete: %v", err)
		}
		if t, there := r.thing(m.Resource.ID); !there || !t.Protected {
			r.Fatalf("there is %+v, %v", t, there)
		}
		r.w.Protect(m.Resource.ID, false)
		r.remove(m)
	}},
	{"delete waits for what is locked", func(r *rig) {
		r.needs(r.w.Lock != nil, "lock a machine")
		m := r.ready()
		r.w.Lock(m.Resource.ID, "backup")
		if err := r.tries(5, m, r.p.Delete); !is(err, provider.ErrLocked) {
			r.Errorf("delete: %v", err)
		}
		if t, there := r.thing(m.Resource.ID); !there || t.Locked == "" {
			r.Fatalf("there is %+v, %v", t, there)
		}
		r.w.Lock(m.Resource.ID, "")
		r.remove(m)
	}},
	{"delete refuses a mark that is not of the machine's identity", func(r *rig) {
		r.refuses(func(r *rig) call { return r.p.Delete })
	}},
	{"delete does nothing to what is half made and cannot be read", func(r *rig) {
		r.halfMade(func(r *rig) call { return r.p.Delete })
	}},
}

// ready is a machine that was made.
func (r *rig) ready() *machine {
	r.Helper()
	m := r.row()
	r.create(m)
	return m
}
