package providertest

import (
	"context"
	"reflect"

	"github.com/zoomies-fleet/zoomies/provider"
)

var troubleCases = []Case{
	{"preflight has nothing against a world that is well", func(r *rig) {
		for _, f := range r.p.Preflight(r.Context()) {
			if f.Severity == provider.SeverityError {
				r.Errorf("it found %+v", f)
			}
		}
	}},
	{"preflight says what is wrong, and how to mend it", func(r *rig) {
		r.needs(r.w.Deny != nil, "take rights away")
		r.w.Deny(true)
		r.findings(r.p.Preflight(r.Context()))
	}},
	{"preflight says that nothing answers", func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r.findings(r.p.Preflight(ctx))
	}},
	{"without the right to, nothing is done and every call says so", func(r *rig) {
		r.needs(r.w.Deny != nil, "take rights away")
		there, fresh := r.ready(), r.row()
		r.w.Deny(true)
		before := r.w.Things()
		for name, err := range r.all(r.Context(), there, fresh) {
			if !is(err, provider.ErrDenied) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if after := r.w.Things(); !reflect.DeepEqual(before, after) {
			r.Errorf("there was %+v, and is %+v", before, after)
		}
		r.w.Deny(false)
		r.create(fresh)
		r.remove(there)
	}},
	{"with a context that has ended, nothing is done and every call says so", func(r *rig) {
		there, fresh := r.ready(), r.row()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		before := r.w.Things()
		for name, err := range r.all(ctx, there, fresh) {
			if r.classed(err); !is(err, provider.ErrTransient, provider.ErrUnknownOutcome) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if after := r.w.Things(); !reflect.DeepEqual(before, after) {
			r.Errorf("there was %+v, and is %+v", before, after)
		}
	}},
	{"a call ends with its context, and goes on later", func(r *rig) {
		r.needs(r.w.Break != nil, "break a request")
		for n := range 10 * rounds {
			r := r.again()
			m := r.row()
			hit := r.w.Break(n, Hang)
			err := r.hung(m, hit)
			r.classed(err)
			if err != nil && !is(err, provider.ErrTransient, provider.ErrUnknownOutcome) {
				r.Errorf("request %d: %v", n, err)
			}
			if !hit() {
				r.running(m)
				return
			}
			r.create(m)
		}
	}},
	{"every error has a class", func(r *rig) {
		r.needs(r.w.Break != nil, "break a request")
		for _, how := range []Loss{NotSent, LostBefore, LostAfter} {
			r := r.again()
			there, fresh := r.ready(), r.row()
			for range 2 {
				// More breaks than one call makes requests.
				for n := range 8 {
					r.w.Break(n, how)
				}
				for _, err := range r.all(r.Context(), there, fresh) {
					r.classed(err)
				}
				r.watch()
			}
		}
	}},
}

// findings wants at least one that keeps machines from being made, and that each is of use.
func (r *rig) findings(found []provider.Finding) {
	r.Helper()
	errs := 0
	for _, f := range found {
		if f.Severity == provider.SeverityError {
			errs++
		}
		if f.Code == "" || f.Title == "" || f.Fix == "" {
			r.Errorf("it found %+v", f)
		}
	}
	if errs == 0 {
		r.Errorf("it found %+v", found)
	}
}

// all makes each call once, and returns what it failed with.
func (r *rig) all(ctx context.Context, there, fresh *machine) map[string]error {
	errs := map[string]error{}
	_, errs["allocate"] = r.p.Allocate(ctx, r.w.Shape, r.taken())
	_, errs["create"] = r.p.Create(ctx, fresh.Machine)
	_, errs["settle"] = r.p.Settle(ctx, there.Machine)
	_, errs["inspect"] = r.p.Inspect(ctx, there.Resource)
	_, errs["list"] = r.p.List(ctx)
	_, errs["delete"] = r.p.Delete(ctx, there.Machine)
	return errs
}

// hung makes calls until one hangs, and ends that one's context.
func (r *rig) hung(m *machine, hit func() bool) error {
	r.Helper()
	for range rounds {
		ctx, cancel := context.WithCancel(r.Context())
		type answer struct {
			s   provider.Step
			err error
		}
		done := make(chan answer, 1)
		go func() {
			s, err := r.p.Create(ctx, m.Machine)
			done <- answer{s, err}
		}()
		var a answer
		for waiting := true; waiting; {
			select {
			case a = <-done:
				waiting = false
			case <-tick():
				if hit() {
					cancel()
				}
			}
		}
		cancel()
		if a.err != nil && !is(a.err, provider.ErrLocked) || a.s.Done {
			return a.err
		}
		r.pass()
	}
	return errNever
}
