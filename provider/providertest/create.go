package providertest

import (
	"context"

	"github.com/zoomies-fleet/zoomies/provider"
)

var createCases = []Case{
	{"create is idempotent", func(r *rig) {
		m := r.row()
		r.create(m)
		was, drives := r.state(m), len(m.drives)
		for range 3 {
			if s, err := r.step(m, r.p.Create); err != nil || !s.Done {
				r.Errorf("again: %+v, %v", s, err)
			}
		}
		if now := r.state(m); now != was || len(m.drives) != drives {
			r.Errorf("it was %s after %d drives, and is %s after %d", was, drives, now, len(m.drives))
		}
	}},
	{"create makes one machine whichever answer is lost", func(r *rig) {
		r.losses((*rig).row, func(r *rig, m *machine) { r.create(m) })
	}},
	{"create makes one machine whichever answer is lost and however often the controller dies", func(r *rig) {
		r.losses((*rig).row, func(r *rig, m *machine) {
			if err := r.dying(m, provider.Provider.Create); err != nil {
				r.Fatalf("create: %v", err)
			}
			r.running(m)
		})
	}},
	{"create goes on where it was when the machine is deleted behind our back", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		r.between(func(r *rig, m *machine) { r.w.Vanish(m.Resource.ID) }, func(r *rig, m *machine, _ bool) {
			r.create(m)
		})
	}},
	{"create is not misled by an old list", func(r *rig) {
		r.needs(r.w.Freeze != nil, "keep its listing old")
		r.w.Freeze()
		m := r.row()
		r.create(m)
		r.restart()
		r.create(m)
		r.remove(m)
	}},
	{"create refuses a mark that is not of the machine's identity", func(r *rig) {
		r.refuses(func(r *rig) call { return r.p.Create })
	}},
	{"create does nothing to what is half made and cannot be read", func(r *rig) {
		r.halfMade(func(r *rig) call { return r.p.Create })
	}},
	{"create never calls done what a dead worker left", func(r *rig) {
		r.needs(r.w.DieMake != nil, "have the worker die that makes a machine")
		m := r.row()
		r.w.DieMake()
		if err := r.tries(10, m, r.p.Create); !is(err, provider.ErrLocked) {
			r.Errorf("create: %v", err)
		}
		if m.failed == nil {
			r.Logf("no operation was seen to fail")
		}
		if err := r.tries(10, m, r.p.Delete); !is(err, provider.ErrLocked) {
			r.Errorf("delete: %v", err)
		}
	}},
	{"create says that there is no room", func(r *rig) {
		r.needs(r.w.FillMake != nil, "be too full to make a machine")
		m := r.row()
		r.w.FillMake(true)
		err := r.tries(10, m, r.p.Create)
		if !is(err, provider.ErrQuota) && !is(m.failed, provider.ErrQuota) {
			r.Errorf("create: %v, and its operation %v", err, m.failed)
		}
		r.w.FillMake(false)
		r.create(m)
	}},
	{"create says that its image is not there", func(r *rig) {
		r.needs(r.w.Image.SHA256 != "", "tell one image from another")
		m := r.row()
		m.Image.SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
		if err := r.finish(m, r.p.Create); !is(err, provider.ErrConflict) {
			r.Errorf("create: %v", err)
		}
		if t, there := r.thing(m.Resource.ID); there {
			r.Errorf("there is %+v", t)
		}
	}},
}

// state is all of a machine that a change would change.
func (r *rig) state(m *machine) string {
	r.Helper()
	t, there := r.thing(m.Resource.ID)
	if !there {
		return "nothing"
	}
	return t.State
}

// dying is a controller that dies after each call, before it has saved the operation.
func (r *rig) dying(m *machine, do func(provider.Provider, context.Context, provider.Machine) (provider.Step, error)) error {
	r.Helper()
	var last error
	for range rounds {
		r.restart()
		s, err := r.step(m, func(c context.Context, m provider.Machine) (provider.Step, error) { return do(r.p, c, m) })
		switch {
		case err == nil && s.Done:
			return nil
		case err != nil && !is(err, provider.ErrUnknownOutcome, provider.ErrTransient, provider.ErrLocked):
			return err
		}
		last = err
		r.pass()
	}
	if last != nil {
		return last
	}
	return errNever
}

// between has something happen after each number of calls that a create takes, in a world of its own, and goes on with then. done says
// that the machine was complete by then.
func (r *rig) between(happen func(r *rig, m *machine), then func(r *rig, m *machine, done bool)) {
	r.Helper()
	for n := range rounds {
		r := r.again()
		m := r.row()
		done := false
		for range n {
			s, err := r.step(m, r.p.Create)
			if err != nil {
				r.Fatalf("create: %v", err)
			}
			if done = s.Done; done {
				break
			}
			r.follow(m, s.Operation)
		}
		happen(r, m)
		r.restart()
		then(r, m, done)
		if done {
			return
		}
	}
	r.Fatalf("create is never done")
}

// refuses wants a call to refuse marks that prove nothing, and to change nothing.
func (r *rig) refuses(of func(r *rig) call) {
	r.Helper()
	good := r.row()
	r.create(good)
	was := r.state(good)
	for name, spoil := range map[string]func(m *provider.Machine){
		"another identity":   func(m *provider.Machine) { m.Mark.Resource += "1" },
		"another resource":   func(m *provider.Machine) { m.Resource.ID += "1" },
		"no nonce":           func(m *provider.Machine) { m.Mark.Nonce = "" },
		"no machine":         func(m *provider.Machine) { m.Mark.Machine = "" },
		"no fleet":           func(m *provider.Machine) { m.Mark.Fleet = "" },
		"no identity at all": func(m *provider.Machine) { m.Mark.Resource, m.Resource.ID = "", "" },
	} {
		m := &machine{Machine: good.Machine}
		spoil(&m.Machine)
		if s, err := r.step(m, of(r)); !is(err, provider.ErrInvalid) {
			r.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if now := r.state(good); now != was {
		r.Errorf("it was %s, and is %s", was, now)
	}
}

// halfMade wants a call to leave alone what a dead worker left, for as long as it is there.
func (r *rig) halfMade(of func(r *rig) call) {
	r.Helper()
	r.needs(r.w.Leave != nil, "keep what a dead worker left")
	m := r.row()
	r.w.Leave(m.Machine)
	was := r.state(m)
	if err := r.tries(10, m, of(r)); !is(err, provider.ErrLocked) {
		r.Errorf("it says %v", err)
	}
	if now := r.state(m); now != was {
		r.Errorf("it was %s, and is %s", was, now)
	}
	if f, err := r.p.Inspect(r.Context(), m.Resource); is(err, provider.ErrNotFound) || err == nil && (!f.Incomplete || f.Locked == "") {
		r.Errorf("inspect found %+v, %v", f, err)
	}
}
