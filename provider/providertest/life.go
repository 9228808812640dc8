package providertest

import (
	"sync"

	"github.com/zoomies-fleet/zoomies/provider"
)

var lifeCases = []Case{
	{"a machine is made, settled and deleted", func(r *rig) {
		m := r.row()
		r.create(m)
		r.settle(m)
		r.running(m)
		r.remove(m)
	}},
	{"kind and capabilities do not change, and say what is there", func(r *rig) {
		kind, can := r.p.Kind(), r.p.Capabilities()
		r.restart()
		if kind == "" || kind != r.p.Kind() || can != r.p.Capabilities() {
			r.Errorf("it is %q with %+v, and was %q with %+v", r.p.Kind(), r.p.Capabilities(), kind, can)
		}
		if _, ok := r.p.(provider.Imager); ok != can.Images {
			r.Errorf("it is an Imager: %v, and says %v", ok, can.Images)
		}
		if _, ok := r.p.(provider.Discoverer); ok != can.Discover {
			r.Errorf("it is a Discoverer: %v, and says %v", ok, can.Discover)
		}
	}},
	{"different machines are made and deleted at once", func(r *rig) {
		var all []*machine
		for range 5 {
			all = append(all, r.row())
		}
		r.together(all, func(m *machine) error { return r.finish(m, r.p.Create) })
		for _, m := range all {
			r.running(m)
		}
		r.together(all, func(m *machine) error { return r.finish(m, r.p.Delete) })
		for _, m := range all {
			r.gone(m)
		}
	}},
	{"a machine that is asked for by four at once is made once", func(r *rig) {
		m := r.row()
		for range rounds {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					_, err := r.w.Connect().Create(r.Context(), m.Machine)
					r.classed(err)
				})
			}
			wg.Wait()
			r.watch()
			r.pass()
			if s, err := r.step(m, r.p.Create); err == nil && s.Done {
				break
			}
		}
		r.running(m)
	}},
	{"two that are deleted twice at once are gone", func(r *rig) {
		all := []*machine{r.row(), r.row()}
		for _, m := range all {
			r.create(m)
		}
		twice := append([]*machine{}, all...)
		for _, m := range all {
			twin := &machine{Machine: m.Machine}
			twice = append(twice, twin)
		}
		r.together(twice, func(m *machine) error { return r.finish(m, r.w.Connect().Delete) })
		for _, m := range all {
			r.gone(m)
		}
	}},
	{"what a connection offers can be listed", func(r *rig) {
		d, ok := r.p.(provider.Discoverer)
		r.needs(ok, "be asked what it offers: the provider is no Discoverer")
		found, err := d.Discover(r.Context())
		if err != nil || len(found.Zones) == 0 {
			r.Errorf("it offers %+v, %v", found, err)
		}
	}},
}

// together does something to each machine at once. Only errors cross goroutines: a T may be ended by its own only.
func (r *rig) together(all []*machine, do func(m *machine) error) {
	r.Helper()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { errs[i] = do(m) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			r.Errorf("%s: %v", all[i].Mark.Machine, err)
		}
	}
	r.watch()
}
