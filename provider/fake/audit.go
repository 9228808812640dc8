package fake

import (
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/provider"
)

// Mutation is one effective change in the world, recorded the moment it had its effect.
type Mutation struct {
	At      time.Time
	Request Request
	By      provider.Mark // who asked
	ID      string        // what was changed
	Name    string
	Serial  int            // of the thing; 0 for a drive
	Owner   *provider.Mark // the mark that it really had then; nil is nobody of ours
	// Foreign says that By was not the owner, or that the thing is a copy of what By owns.
	Foreign bool
}

func (w *World) record(kind Request, by provider.Mark, t *thing) {
	w.audit = append(w.audit, Mutation{
		At: w.now(), Request: kind, By: by, ID: t.found.Resource.ID, Name: t.found.Name, Serial: t.serial, Owner: t.mark,
		Foreign: t.mark == nil || *t.mark != by || t.mark.Resource != t.found.Resource.ID,
	})
}

// recordDrive records a change of a drive: it belongs to whom the identity belongs to, and without one to who wrote it.
func (w *World) recordDrive(kind Request, by provider.Mark, id string) {
	m := Mutation{At: w.now(), Request: kind, By: by, ID: id, Name: "drive of " + id}
	switch t, d := w.things[id], w.drives[id]; {
	case t != nil:
		m.Owner, m.Foreign = t.mark, t.mark == nil || *t.mark != by || t.mark.Resource != id
	case d != nil && d.content != nil:
		m.Owner, m.Foreign = &d.by, d.by != by
	}
	w.audit = append(w.audit, m)
}

// Audit are all mutations so far that came by request. What a test scripts is not among them.
func (w *World) Audit() []Mutation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.audit)
}

// ForeignTouched are the mutations of what did not belong to who asked. There must never be one.
func (w *World) ForeignTouched() []Mutation {
	var out []Mutation
	for _, m := range w.Audit() {
		if m.Foreign {
			out = append(out, m)
		}
	}
	return out
}

// Made is how many things were ever made by request with a machine's mark.
func (w *World) Made(machine string) int {
	n := 0
	for _, m := range w.Audit() {
		if m.Request == Make && m.By.Machine == machine {
			n++
		}
	}
	return n
}

// Thing is a resource as it really is.
type Thing struct {
	provider.Found // with its mark, also where a read would not show it

	Serial int
	Shape  provider.Shape
	Image  string // hash of what it was made from, or is
	Booted []byte // the drive at its first power-on
	Boots  int
}

// Things are all resources, by identity.
func (w *World) Things() []Thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	var out []Thing
	for _, id := range w.sorted() {
		out = append(out, w.things[id].public())
	}
	return out
}

// Thing is one of them; false when nothing has the identity.
func (w *World) Thing(id string) (Thing, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass()
	if t := w.things[id]; t != nil {
		return t.public(), true
	}
	return Thing{}, false
}

func (t *thing) public() Thing {
	f := t.found
	if t.mark != nil {
		m := *t.mark
		f.Mark = &m
	}
	return Thing{Found: f, Serial: t.serial, Shape: t.shape, Image: t.image, Booted: t.booted, Boots: t.boots}
}

// Drives are the contents of the config drives that are not blank, by identity: the secrets that lie about.
func (w *World) Drives() map[string][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string][]byte{}
	for id, d := range w.drives {
		if d.content != nil {
			out[id] = slices.Clone(d.content)
		}
	}
	return out
}
