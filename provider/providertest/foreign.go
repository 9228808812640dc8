package providertest

import (
	"github.com/zoomies-fleet/zoomies/provider"
)

// strangers are what can hold an identity that a machine was to have.
var strangers = []struct {
	name string
	of   func(m *machine) provider.Found
}{
	{"a stranger's", func(m *machine) provider.Found { return provider.Found{Resource: m.Resource, Name: "mine"} }},
	{"a stranger's that runs under our name", func(m *machine) provider.Found {
		return provider.Found{Resource: m.Resource, Name: m.Name, Power: provider.PowerOn}
	}},
	{"another machine of the fleet", func(m *machine) provider.Found {
		other := m.Mark
		other.Machine, other.Nonce = "mac_other", "other"
		return provider.Found{Resource: m.Resource, Name: m.Name, Mark: &other, Power: provider.PowerOn}
	}},
	{"a machine of the same row in another life of the database", func(m *machine) provider.Found {
		other := m.Mark
		other.Nonce = "other"
		return provider.Found{Resource: m.Resource, Name: m.Name, Mark: &other}
	}},
	{"another fleet's machine", func(m *machine) provider.Found {
		other := m.Mark
		other.Fleet = "another"
		return provider.Found{Resource: m.Resource, Name: m.Name, Mark: &other}
	}},
	{"a copy of a machine of ours that was elsewhere", func(m *machine) provider.Found {
		other := m.Mark
		other.Resource += "1"
		return provider.Found{Resource: m.Resource, Name: m.Name, Mark: &other}
	}},
}

var foreignCases = []Case{
	{"create leaves what is not ours alone", func(r *rig) { r.leaves(func(r *rig) call { return r.p.Create }) }},
	{"settle leaves what is not ours alone", func(r *rig) { r.leaves(func(r *rig) call { return r.p.Settle }) }},
	{"delete leaves what is not ours alone", func(r *rig) { r.leaves(func(r *rig) call { return r.p.Delete }) }},
	{"delete leaves what took the identity before the clean-up", func(r *rig) {
		r.takenOver(func(r *rig, m *machine) error { return r.barred(m, r.p.Delete) })
	}},
	{"create leaves what took the identity while it was made", func(r *rig) {
		r.takenOver(func(r *rig, m *machine) error { return r.barred(m, r.p.Create) })
	}},
	{"delete leaves what took the identity while it was deleted", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		for n := range rounds {
			r := r.again()
			m := r.ready()
			for range n {
				s, err := r.step(m, r.p.Delete)
				switch {
				case err != nil:
					r.Fatalf("delete: %v", err)
				case s.Done:
					return
				}
				r.follow(m, s.Operation)
			}
			r.w.Vanish(m.Resource.ID)
			r.put(strangers[1].of(m))
			if err := r.barred(m, r.p.Delete); !r.foreign(err) {
				r.Errorf("after %d calls: %v", n, err)
			}
		}
	}},
	{"delete leaves what took the identity while its operation ran", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		m := r.ready()
		for range rounds {
			s, err := r.step(m, r.p.Delete)
			if err != nil || s.Done {
				break
			}
			if m.Operation = s.Operation; m.Operation != "" {
				break
			}
		}
		if m.Operation == "" {
			r.Skipf("this provider names no operation when it deletes")
		}
		r.w.Vanish(m.Resource.ID)
		r.put(strangers[1].of(m))
		r.follow(m, m.Operation)
		r.watch()
		if err := r.barred(m, r.p.Delete); !r.foreign(err) {
			r.Errorf("delete: %v", err)
		}
	}},
	{"delete of a former machine leaves its successor and the successor's drive", func(r *rig) {
		r.needs(r.w.Vanish != nil, "delete a machine")
		old := r.ready()
		r.w.Vanish(old.Resource.ID)
		next := r.rowAt(old.Resource)
		r.create(next)
		was, secrets := r.state(next), len(r.w.Secrets())
		if err := r.barred(old, r.p.Delete); !r.foreign(err) {
			r.Errorf("delete: %v", err)
		}
		if err := r.barred(old, r.p.Settle); !r.foreign(err) {
			r.Errorf("settle: %v", err)
		}
		if now := r.state(next); now != was || len(r.w.Secrets()) != secrets {
			r.Errorf("the successor was %s, and is %s; %d drives lay about, and now %d", was, now, secrets, len(r.w.Secrets()))
		}
		r.remove(next)
	}},
	{"a machine whose mark was edited away is left alone", func(r *rig) {
		r.needs(r.w.Unmark != nil, "take a mark away")
		m := r.ready()
		r.w.Unmark(m.Resource.ID)
		r.mu.Lock()
		r.placed[m.Resource.ID], _ = r.thing(m.Resource.ID)
		r.mu.Unlock()
		for name, do := range map[string]call{"create": r.p.Create, "settle": r.p.Settle, "delete": r.p.Delete} {
			if err := r.barred(m, do); !r.foreign(err) {
				r.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"delete of a machine leaves its copies alone", func(r *rig) {
		m := r.ready()
		r.put(provider.Found{Resource: r.row().Resource, Name: m.Name, Mark: &m.Mark})
		r.remove(m)
	}},
	{"nothing of ours can be deleted by what its copy has for an identity", func(r *rig) {
		m, other := r.ready(), r.row()
		r.put(provider.Found{Resource: other.Resource, Name: m.Name, Mark: &m.Mark})
		if err := r.barred(other, r.p.Delete); !r.foreign(err) {
			r.Errorf("delete: %v", err)
		}
	}},
}

// leaves wants a call to say ErrForeign of every stranger, and to change nothing.
func (r *rig) leaves(of func(r *rig) call) {
	r.Helper()
	for _, s := range strangers {
		r := r.again()
		m := r.row()
		r.put(s.of(m))
		for range 2 {
			if err := r.barred(m, of(r)); !r.foreign(err) {
				r.Errorf("%s: %v", s.name, err)
			}
			r.restart()
		}
		if drives := len(m.drives); drives > 0 {
			r.Errorf("%s: %d config drives were made for it", s.name, drives)
		}
	}
}

// takenOver has strangers take the identity after each number of calls of a create.
func (r *rig) takenOver(do func(r *rig, m *machine) error) {
	r.Helper()
	r.needs(r.w.Vanish != nil, "delete a machine")
	for _, s := range strangers {
		r.between(func(r *rig, m *machine) {
			r.w.Vanish(m.Resource.ID)
			r.put(s.of(m))
		}, func(r *rig, m *machine, _ bool) {
			if err := do(r, m); !r.foreign(err) {
				r.Errorf("%s: %v", s.name, err)
			}
		})
	}
}

// barred makes calls that must not get anywhere, a few times where they might only have to wait.
func (r *rig) barred(m *machine, do call) error {
	r.Helper()
	return r.tries(5, m, do)
}

// foreign says whether an error says that what is there is not ours.
func (r *rig) foreign(err error) bool {
	return is(err, provider.ErrForeign) || r.w.Blind && is(err, provider.ErrLocked)
}
