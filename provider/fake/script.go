package fake

import (
	"github.com/zoomies-fleet/zoomies/provider"
)

// What happens behind the provider's back. None of it is in the audit. Things that are named and not there are ignored.

// Put puts a thing into the world as it is, over whatever has its identity: a stranger's when f.Mark is nil.
func (w *World) Put(f provider.Found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	w.put(f, f.Mark).ready = true
}

// Vanish deletes what has the identity.
func (w *World) Vanish(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	delete(w.things, id)
}

// Replace deletes what has the identity and puts something else of the same name there, with owner's mark or nobody's.
func (w *World) Replace(id string, owner *provider.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	f := provider.Found{Resource: provider.Resource{ID: id}, Power: provider.PowerOn}
	if t := w.things[id]; t != nil {
		f.Name, f.Resource.Zone = t.found.Name, t.found.Resource.Zone
	}
	w.put(f, owner).ready = true
}

// Copy clones a thing, its mark and name included, to another identity.
func (w *World) Copy(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	if t := w.things[from]; t != nil {
		w.put(provider.Found{Resource: provider.Resource{ID: to, Zone: t.found.Resource.Zone}, Name: t.found.Name}, t.mark).ready = true
	}
}

// Leave puts what a dead worker left of m's making: incomplete, locked for ever, its mark not to be read.
func (w *World) Leave(m provider.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	w.put(provider.Found{Resource: m.Resource, Incomplete: true, Locked: string(Make)}, &m.Mark)
}

// Unmark takes a thing's mark away, as somebody does who edits the description.
func (w *World) Unmark(id string) { w.edit(id, func(t *thing) { t.mark = nil }) }

// Protect lets nobody delete a thing, or anybody again.
func (w *World) Protect(id string, on bool) { w.edit(id, func(t *thing) { t.found.Protected = on }) }

// Lock locks a thing, or unlocks it with an empty word. What works on it is not stopped.
func (w *World) Lock(id, why string) { w.edit(id, func(t *thing) { t.found.Locked = why }) }

// PowerOff is the guest powering itself off; PowerOn somebody at the console.
func (w *World) PowerOff(id string) { w.edit(id, func(t *thing) { t.found.Power = provider.PowerOff }) }

// PowerOn powers a thing on.
func (w *World) PowerOn(id string) { w.edit(id, func(t *thing) { t.found.Power = provider.PowerOn }) }

// Move migrates a thing to another zone.
func (w *World) Move(id, zone string) { w.edit(id, func(t *thing) { t.found.Resource.Zone = zone }) }

func (w *World) edit(id string, do func(*thing)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	if t := w.things[id]; t != nil {
		do(t)
	}
}

// Freeze keeps what List shows as it is now, until Mend.
func (w *World) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	w.look()
	w.frozen = true
}

// Forget has nobody know the operations that have ended any more.
func (w *World) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	for name, op := range w.ops {
		if op.ended {
			delete(w.ops, name)
		}
	}
}

// Fill leaves no room for another machine, or makes room again.
func (w *World) Fill(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.filled = on
}

// Fleet is whose world it is.
func (w *World) Fleet() string { return w.o.Fleet }
