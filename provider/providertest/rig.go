package providertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/provider"
)

const (
	rounds = 100             // how often the suite repeats a call before it gives up
	pause  = 5 * time.Second // of the world's time, between two looks
)

var errNever = errors.New("it is still not done after many calls")

// tick is a moment of the machine's own clock, for what a world cannot say when it has happened.
func tick() <-chan time.Time { return time.After(time.Millisecond) }

// rig is one case: a world, a provider of it, and a controller as small as can be.
type rig struct {
	T

	h Harness
	w World
	p provider.Provider

	mu     sync.Mutex
	made   []*machine
	placed map[string]Thing // by identity: what the case put there itself, as it was
}

// machine is one row of the small controller.
type machine struct {
	provider.Machine

	mu     sync.Mutex
	drives []string // what ConfigDrive returned so far
	failed error    // of the last operation
}

func start(t T, h Harness) *rig {
	t.Helper()
	r := &rig{T: t, h: h, w: h.New(t), placed: map[string]Thing{}}
	r.p = r.w.Connect()
	return r
}

// again is a rig of the same case in a world of its own.
func (r *rig) again() *rig {
	r.Helper()
	return start(r.T, r.h)
}

// needs skips the case when the harness lacks a knob.
func (r *rig) needs(has bool, what string) {
	r.Helper()
	if !has {
		r.Skipf("this world cannot %s", what)
	}
}

// restart is the controller starting anew.
func (r *rig) restart() { r.p = r.w.Connect() }

func (r *rig) pass() { r.w.Pass(pause) }

// row chooses an identity and writes a machine down.
func (r *rig) row() *machine {
	r.Helper()
	res, err := r.p.Allocate(r.Context(), r.w.Shape, r.taken())
	if err != nil {
		r.Fatalf("allocate: %v", err)
	}
	return r.rowAt(res)
}

func (r *rig) rowAt(res provider.Resource) *machine {
	word := strings.ToLower(rand.Text()[:8])
	m := &machine{Machine: provider.Machine{
		Mark:     provider.Mark{Fleet: r.w.Fleet, Machine: "mac_" + word, Resource: res.ID, Nonce: rand.Text()},
		Resource: res, Name: "zoomies-test-" + word, Shape: r.w.Shape, Image: r.w.Image,
	}}
	m.ConfigDrive = func(context.Context) ([]byte, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drives = append(m.drives, fmt.Sprintf("secret %d of %s", len(m.drives)+1, m.Mark.Machine))
		return []byte(m.drives[len(m.drives)-1]), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, m)
	return m
}

func (r *rig) taken() []provider.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []provider.Resource
	for _, m := range r.made {
		out = append(out, m.Resource)
	}
	return out
}

// put puts a thing there that nothing may change from now on.
func (r *rig) put(f provider.Found) {
	r.Helper()
	r.w.Put(f)
	t, there := r.thing(f.Resource.ID)
	if !there {
		r.Fatalf("the harness did not put %s there", f.Resource.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.placed[f.Resource.ID] = t
}

func (r *rig) thing(id string) (Thing, bool) {
	for _, t := range r.w.Things() {
		if t.Resource.ID == id {
			return t, true
		}
	}
	return Thing{}, false
}

type call func(context.Context, provider.Machine) (provider.Step, error)

// step makes one call, and looks whether the world is still as it should be.
func (r *rig) step(m *machine, do call) (provider.Step, error) {
	r.Helper()
	m.mu.Lock()
	before := len(m.drives)
	m.mu.Unlock()
	s, err := do(r.Context(), m.Machine)
	m.mu.Lock()
	if len(m.drives) > before+1 {
		r.Errorf("one call made %d config drives", len(m.drives)-before)
	}
	m.mu.Unlock()
	r.classed(err)
	if err != nil && s != (provider.Step{}) {
		r.Errorf("the step is %+v beside the error %v", s, err)
	}
	if err != nil && is(err, provider.ErrNotFound) {
		r.Errorf("it is not found (%v), which only Inspect and Follow say", err)
	}
	r.watch()
	return s, err
}

// classed wants an error to have a class.
func (r *rig) classed(err error) {
	r.Helper()
	if err != nil && is(err, provider.ErrUnknownOutcome) && !errors.Is(err, provider.ErrUnknownOutcome) {
		r.Errorf("the error has no class: %v", err)
	}
}

// is says whether an error counts as one of the classes.
func is(err error, classes ...error) bool {
	for _, c := range classes {
		if errors.Is(provider.Class(err), c) {
			return true
		}
	}
	return false
}

// watch wants no machine twice, nothing that nobody asked for, and nothing of others changed.
func (r *rig) watch() {
	r.Helper()
	things := r.w.Things()
	r.mu.Lock()
	defer r.mu.Unlock()
	var touched []string
	if r.w.Touched != nil {
		touched = r.w.Touched()
	}
	if len(touched) > 0 {
		r.Fatalf("what is not ours was changed: %s", strings.Join(touched, "; "))
	}
	rows := map[string]bool{}
	for _, m := range r.made {
		rows[m.Mark.Machine] = true
	}
	seen, count := map[string]bool{}, map[string]int{}
	for _, t := range things {
		if was, ok := r.placed[t.Resource.ID]; ok {
			seen[t.Resource.ID] = true
			if !reflect.DeepEqual(was, t) {
				r.Fatalf("what is not ours was changed: %+v is now %+v", was, t)
			}
			continue
		}
		switch {
		case t.Template || t.Incomplete && t.Mark == nil:
		case t.Mark == nil || !rows[t.Mark.Machine]:
			r.Errorf("nobody asked for %+v", t)
		default:
			if count[t.Mark.Machine]++; count[t.Mark.Machine] > 1 {
				r.Fatalf("there are two of %s", t.Mark.Machine)
			}
		}
	}
	for id := range r.placed {
		if !seen[id] {
			r.Fatalf("what is not ours was deleted: %s", id)
		}
	}
}

// finish repeats a call until it is Done, as a controller does, and returns what keeps it from that.
func (r *rig) finish(m *machine, do call) error {
	r.Helper()
	return r.tries(rounds, m, do)
}

func (r *rig) tries(n int, m *machine, do call) error {
	r.Helper()
	var last error
	for range n {
		s, err := r.step(m, do)
		switch last = err; {
		case err == nil && s.Done:
			m.Operation = ""
			return nil
		case err == nil:
			r.follow(m, s.Operation)
		case is(err, provider.ErrUnknownOutcome, provider.ErrTransient, provider.ErrLocked):
			r.pass()
		default:
			return err
		}
	}
	if last != nil {
		return last
	}
	return errNever
}

// follow waits until an operation has ended, or a while when there is none.
func (r *rig) follow(m *machine, operation string) {
	r.Helper()
	if m.Operation = operation; operation == "" {
		r.pass()
		return
	}
	for range 5 * rounds {
		progress, err := r.p.Follow(r.Context(), operation)
		r.classed(err)
		switch {
		case is(err, provider.ErrNotFound):
			m.Operation = ""
			return
		case err == nil && progress.Ended:
			r.classed(progress.Err)
			m.Operation, m.failed = "", progress.Err
			return
		case err == nil && progress.Err != nil:
			r.Errorf("an operation that runs has failed: %+v", progress)
		}
		r.pass()
	}
	r.Fatalf("the operation %s never ends", operation)
}

// create makes a machine and wants it to be as it should.
func (r *rig) create(m *machine) {
	r.Helper()
	if err := r.finish(m, r.p.Create); err != nil {
		r.Fatalf("create: %v", err)
	}
	r.running(m)
}

// running wants exactly one machine, complete and on, that was configured by what was handed out last.
func (r *rig) running(m *machine) {
	r.Helper()
	t, there := r.thing(m.Resource.ID)
	switch {
	case !there:
		r.Fatalf("create was Done and nothing is there")
	case !t.Found.Carries(m.Mark) || t.Incomplete || t.Power != provider.PowerOn || t.Template || t.Name != m.Name:
		r.Fatalf("create was Done and there is %+v", t)
	case len(m.drives) == 0:
		r.Fatalf("create was Done and no config drive was asked for")
	case t.Booted != nil && string(t.Booted) != m.drives[len(m.drives)-1]:
		r.Errorf("it booted from %q, and what was handed out last is %q", t.Booted, m.drives[len(m.drives)-1])
	}
}

// remove deletes a machine and wants nothing to be left of it.
func (r *rig) remove(m *machine) {
	r.Helper()
	if err := r.finish(m, r.p.Delete); err != nil {
		r.Fatalf("delete: %v", err)
	}
	r.gone(m)
}

func (r *rig) gone(m *machine) {
	r.Helper()
	if t, there := r.thing(m.Resource.ID); there {
		r.Fatalf("delete was Done and there is %+v", t)
	}
	r.noSecret(m)
}

func (r *rig) noSecret(m *machine) {
	r.Helper()
	for _, s := range r.w.Secrets() {
		if strings.Contains(s, "of "+m.Mark.Machine) {
			r.Errorf("a secret lies about: %q", s)
		}
	}
}

// losses runs do in a world of its own for each request that it makes and each way to break it.
func (r *rig) losses(prepare func(r *rig) *machine, do func(r *rig, m *machine)) {
	r.Helper()
	r.needs(r.w.Break != nil, "break a request")
	for _, how := range []Loss{NotSent, LostBefore, LostAfter, Slow} {
		for n := range 10 * rounds {
			r := r.again()
			m := prepare(r)
			hit := r.w.Break(n, how)
			do(r, m)
			if !hit() {
				break
			}
			if n == 10*rounds-1 {
				r.Fatalf("it makes more than %d requests", n)
			}
		}
	}
}
