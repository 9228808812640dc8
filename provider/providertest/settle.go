package providertest

import (
	"github.com/zoomies-fleet/zoomies/provider"
)

var settleCases = []Case{
	{"settle takes the drive and its secret away, and may be repeated", func(r *rig) {
		m := r.ready()
		for range 3 {
			r.settle(m)
			r.restart()
		}
		r.running(m)
	}},
	{"settle leaves no secret whichever answer is lost", func(r *rig) {
		r.losses((*rig).ready, func(r *rig, m *machine) {
			r.settle(m)
			r.running(m)
		})
	}},
	{"settle leaves no secret whichever answer is lost and however often the controller dies", func(r *rig) {
		r.losses((*rig).ready, func(r *rig, m *machine) {
			if err := r.dying(m, provider.Provider.Settle); err != nil {
				r.Fatalf("settle: %v", err)
			}
			r.settled(m)
			r.running(m)
		})
	}},
	{"settle of what is gone leaves no secret", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		m := r.ready()
		r.w.Vanish(m.Resource.ID)
		if err := r.finish(m, r.p.Settle); err != nil {
			r.Errorf("settle: %v", err)
		}
		r.noSecret(m)
	}},
	{"settle waits for what is locked", func(r *rig) {
		r.needs(r.w.Lock != nil, "lock a machine")
		r.needs(r.p.Capabilities().Settle, "settle anything")
		m := r.ready()
		r.w.Lock(m.Resource.ID, "backup")
		if err := r.tries(5, m, r.p.Settle); !is(err, provider.ErrLocked) {
			r.Errorf("settle: %v", err)
		}
		r.w.Lock(m.Resource.ID, "")
		r.settle(m)
	}},
	{"settle refuses a mark that is not of the machine's identity", func(r *rig) {
		r.refuses(func(r *rig) call { return r.p.Settle })
	}},
	{"settle does not empty another machine's drive", func(r *rig) {
		m, other := r.ready(), r.ready()
		before := len(r.w.Secrets())
		r.settle(m)
		if left := len(r.w.Secrets()); before > 0 && left != before-1 {
			r.Errorf("%d drives lay about, and now %d", before, left)
		}
		r.running(other)
	}},
}

func (r *rig) settle(m *machine) {
	r.Helper()
	if err := r.finish(m, r.p.Settle); err != nil {
		r.Fatalf("settle: %v", err)
	}
	r.settled(m)
}

func (r *rig) settled(m *machine) {
	r.Helper()
	r.noSecret(m)
	if t, _ := r.thing(m.Resource.ID); t.Drive {
		r.Errorf("settle was Done and there is %+v", t)
	}
}
