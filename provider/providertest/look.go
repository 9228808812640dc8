package providertest

import (
	"context"

	"github.com/zoomies-fleet/zoomies/provider"
)

var lookCases = []Case{
	{"inspect says what is there", func(r *rig) {
		m := r.row()
		r.create(m)
		f, err := r.p.Inspect(r.Context(), m.Resource)
		if err != nil || !f.Carries(m.Mark) || f.Name != m.Name || f.Power != provider.PowerOn || f.Template || f.Incomplete || f.Locked != "" || f.Protected {
			r.Errorf("found %+v, %v", f, err)
		}
		if f.Drive != r.p.Capabilities().Settle {
			r.Errorf("a drive is attached: %v", f.Drive)
		}
	}},
	{"inspect proves that nothing is there", func(r *rig) {
		m := r.row()
		r.absent(m)
		r.create(m)
		r.remove(m)
		r.absent(m)
	}},
	{"inspect takes no refusal and no lost answer for a proof", func(r *rig) {
		m := r.row()
		r.create(m)
		if r.w.Deny != nil {
			r.w.Deny(true)
			if f, err := r.p.Inspect(r.Context(), m.Resource); !is(err, provider.ErrDenied) {
				r.Errorf("denied: found %+v, %v", f, err)
			}
			r.w.Deny(false)
		}
		r.needs(r.w.Break != nil, "break a request")
		for _, how := range []Loss{NotSent, LostBefore, LostAfter} {
			for n := range rounds {
				hit := r.w.Break(n, how)
				f, err := r.p.Inspect(r.Context(), m.Resource)
				r.classed(err)
				if err == nil && !f.Carries(m.Mark) || is(err, provider.ErrNotFound) {
					r.Errorf("%s, request %d: found %+v, %v", how, n, f, err)
				}
				if !hit() {
					// It is not used up: let it pass.
					for range 2 * rounds {
						if _, _ = r.p.Inspect(r.Context(), m.Resource); hit() {
							break
						}
					}
					break
				}
			}
		}
	}},
	{"inspect is not misled by an old list", func(r *rig) {
		r.needs(r.w.Freeze != nil, "keep its listing old")
		gone := r.ready()
		r.listed(gone.Resource.ID)
		r.w.Freeze()
		m := r.ready()
		if f, err := r.p.Inspect(r.Context(), m.Resource); err != nil || !f.Carries(m.Mark) {
			r.Errorf("found %+v, %v", f, err)
		}
		r.remove(gone)
		r.absent(gone)
	}},
	{"inspect sees the guest power itself off", func(r *rig) {
		r.needs(r.w.PowerOff != nil, "have a guest power itself off")
		m := r.row()
		r.create(m)
		r.w.PowerOff(m.Resource.ID)
		if f, err := r.p.Inspect(r.Context(), m.Resource); err != nil || f.Power != provider.PowerOff {
			r.Errorf("found %+v, %v", f, err)
		}
		r.remove(m)
	}},
	{"inspect and delete find what has moved", func(r *rig) {
		r.needs(r.w.Move != nil, "move a machine to another zone")
		m := r.row()
		r.create(m)
		zone := r.w.Move(m.Resource.ID)
		if f, err := r.p.Inspect(r.Context(), m.Resource); err != nil || f.Resource.Zone != zone || !f.Carries(m.Mark) {
			r.Errorf("found %+v, %v, want it in %s", f, err, zone)
		}
		r.remove(m)
	}},
	{"list shows ours, copies of ours, and wearers of our numbers", func(r *rig) {
		m := r.row()
		r.create(m)
		copied, number := r.row().Resource, r.row().Resource
		r.put(provider.Found{Resource: copied, Name: m.Name, Mark: &m.Mark})
		r.put(provider.Found{Resource: number, Name: "mine"})
		if r.w.Outside != "" {
			r.put(provider.Found{Resource: provider.Resource{ID: r.w.Outside}, Name: "elsewhere"})
		}
		want := []string{m.Resource.ID, copied.ID}
		if !r.w.Blind {
			want = append(want, number.ID)
		}
		found := r.listed(want...)
		if f := found[m.Resource.ID]; !f.Carries(m.Mark) {
			r.Errorf("ours is %+v", f)
		}
		if f := found[copied.ID]; f.Mark == nil || *f.Mark != m.Mark || f.Carries(m.Mark) {
			r.Errorf("the copy is %+v", f)
		}
		if f := found[number.ID]; f.Mark != nil {
			r.Errorf("the wearer of our number is %+v", f)
		}
		if f, shown := found[r.w.Outside]; shown {
			r.Errorf("it shows what has nothing to do with us: %+v", f)
		}
	}},
	{"list shows what is marked outside of our range", func(r *rig) {
		r.needs(r.w.Outside != "", "hold anything outside of the fleet's range")
		m := r.row()
		r.put(provider.Found{Resource: provider.Resource{ID: r.w.Outside}, Name: "elsewhere", Mark: &m.Mark})
		if f := r.listed(r.w.Outside)[r.w.Outside]; f.Mark == nil || *f.Mark != m.Mark {
			r.Errorf("it is %+v", f)
		}
	}},
	{"list fails rather than leaving out what it could not ask", func(r *rig) {
		r.needs(r.w.Break != nil, "break a request")
		for range 2 {
			r.create(r.row())
		}
		r.listed(r.made[0].Resource.ID, r.made[1].Resource.ID)
		for n := range rounds {
			hit := r.w.Break(n, NotSent)
			all, err := r.p.List(r.Context())
			r.classed(err)
			if !hit() {
				break
			}
			marked := 0
			for _, f := range all {
				if f.Mark != nil {
					marked++
				}
			}
			if err == nil && marked < 2 || err != nil && len(all) > 0 {
				r.Errorf("request %d was turned away, and it shows %+v, %v", n, all, err)
			}
		}
	}},
	{"an operation can be followed after a restart", func(r *rig) {
		m := r.row()
		for range rounds {
			s, err := r.step(m, r.p.Create)
			if err != nil {
				r.Fatalf("create: %v", err)
			}
			if s.Operation == "" {
				if s.Done {
					r.Skipf("this provider never names an operation")
				}
				r.pass()
				continue
			}
			r.restart()
			if r.follow(m, s.Operation); m.failed != nil {
				r.Errorf("it failed: %v", m.failed)
			}
			return
		}
	}},
	{"an operation that nobody knows any more is not found", func(r *rig) {
		r.needs(r.w.Forget != nil, "forget its operations")
		m := r.row()
		operation := ""
		err := r.finish(m, func(ctx context.Context, m provider.Machine) (provider.Step, error) {
			s, err := r.p.Create(ctx, m)
			if s.Operation != "" {
				operation = s.Operation
			}
			return s, err
		})
		if err != nil {
			r.Fatalf("create: %v", err)
		}
		r.w.Forget()
		if p, err := r.p.Follow(r.Context(), operation); operation != "" && !is(err, provider.ErrNotFound) {
			r.Errorf("it goes so: %+v, %v", p, err)
		}
		if p, err := r.p.Follow(r.Context(), "nonsense"); !is(err, provider.ErrNotFound, provider.ErrInvalid) {
			r.Errorf("nonsense goes so: %+v, %v", p, err)
		}
	}},
	{"an operation that fails says so", func(r *rig) {
		r.needs(r.w.FailMake != nil, "have the making of a machine fail")
		r.w.FailMake()
		m := r.row()
		for range rounds {
			s, err := r.step(m, r.p.Create)
			if err != nil {
				r.Fatalf("create: %v", err)
			}
			if r.follow(m, s.Operation); m.failed != nil {
				break
			}
			if s.Done {
				r.Fatalf("create was Done, and its failure was never said")
			}
		}
		if r.create(m); m.failed != nil {
			r.Errorf("it stays failed: %v", m.failed)
		}
	}},
}

// absent wants Inspect to prove that nothing is there.
func (r *rig) absent(m *machine) {
	r.Helper()
	if f, err := r.p.Inspect(r.Context(), m.Resource); !is(err, provider.ErrNotFound) {
		r.Errorf("nothing is there, and inspect found %+v, %v", f, err)
	}
}

// listed asks for the list until it shows these, since it may lag, and returns all of it.
func (r *rig) listed(want ...string) map[string]provider.Found {
	r.Helper()
	for range rounds {
		all, err := r.p.List(r.Context())
		if err != nil {
			r.Fatalf("list: %v", err)
		}
		found, missing := map[string]provider.Found{}, 0
		for _, f := range all {
			found[f.Resource.ID] = f
		}
		for _, id := range want {
			if _, ok := found[id]; !ok {
				missing++
			}
		}
		if missing == 0 {
			return found
		}
		r.pass()
	}
	r.Fatalf("the list never shows all of %v", want)
	return nil
}
