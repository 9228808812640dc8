package providertest

import (
	"reflect"

	"github.com/zoomies-fleet/zoomies/provider"
)

var allocateCases = []Case{
	{"allocate changes nothing", func(r *rig) {
		before := r.w.Things()
		res, err := r.p.Allocate(r.Context(), r.w.Shape, nil)
		if err != nil || res.ID == "" {
			r.Fatalf("chose %+v, %v", res, err)
		}
		if after := r.w.Things(); !reflect.DeepEqual(before, after) {
			r.Errorf("there was %+v, and is %+v", before, after)
		}
		if found, err := r.p.Inspect(r.Context(), res); !is(err, provider.ErrNotFound) {
			r.Errorf("what was chosen holds %+v, %v", found, err)
		}
	}},
	{"allocate avoids what is taken", func(r *rig) {
		seen := map[string]bool{}
		for range 8 {
			m := r.row()
			if seen[m.Resource.ID] {
				r.Errorf("%s was chosen again", m.Resource.ID)
			}
			seen[m.Resource.ID] = true
		}
	}},
	{"allocate avoids what others hold", func(r *rig) {
		for range 3 {
			res, err := r.p.Allocate(r.Context(), r.w.Shape, nil)
			if err != nil {
				r.Fatalf("%v", err)
			}
			if _, held := r.thing(res.ID); held {
				r.Fatalf("chose %s, which is held", res.ID)
			}
			r.put(provider.Found{Resource: res, Name: "mine"})
		}
	}},
	{"allocate is not misled by an old list", func(r *rig) {
		r.needs(r.w.Freeze != nil, "keep its listing old")
		r.w.Freeze()
		m := r.row()
		r.create(m)
		res, err := r.p.Allocate(r.Context(), r.w.Shape, r.taken())
		if err != nil || res.ID == m.Resource.ID {
			r.Errorf("chose %+v, %v", res, err)
		}
	}},
	{"allocate says that there is no room", func(r *rig) {
		r.needs(r.w.Fill != nil, "be full")
		r.w.Fill(true)
		if res, err := r.p.Allocate(r.Context(), r.w.Shape, nil); !is(err, provider.ErrQuota) || res != (provider.Resource{}) {
			r.Errorf("chose %+v, %v", res, err)
		}
		r.w.Fill(false)
		r.create(r.row())
	}},
	{"allocate never chooses what is taken, also when nothing else is left", func(r *rig) {
		seen := map[string]bool{}
		var taken []provider.Resource
		for range 20 * rounds {
			res, err := r.p.Allocate(r.Context(), r.w.Shape, taken)
			if err != nil {
				if !is(err, provider.ErrQuota) {
					r.Errorf("%v", err)
				}
				return
			}
			if seen[res.ID] {
				r.Fatalf("%s was chosen again", res.ID)
			}
			seen[res.ID] = true
			taken = append(taken, res)
		}
		r.Logf("the range is larger than this case tries")
	}},
}
