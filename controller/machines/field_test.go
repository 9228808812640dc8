package machines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

// What others' fleets did wrong, row by row of the field reports.

// C3: a clone fails, somebody else takes its number, and the clean-up by number destroys their machine.
func TestCleanUpAfterAFailedCreateSparesWhoTookTheNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.world.FailNext(fake.Make, provider.ErrLocked)
	r.jobs = 1
	r.until("the clone has failed", func() bool { return len(r.world.Audit()) > 0 })
	r.world.Put(provider.Found{Resource: provider.Resource{ID: r.machines()[0].ResourceID}, Name: "payroll", Power: provider.PowerOn})
	m := r.machines()[0]
	r.until("the machine is quarantined", func() bool { return r.was(m.ID, store.MachineQuarantined) })
	if x, there := r.world.Thing(m.ResourceID); !there || x.Name != "payroll" || x.Power != provider.PowerOn {
		t.Errorf("payroll is %+v", x)
	}
	r.untouched()
}

// C6: while a clone runs its name and mark cannot be read. That is no mismatch, and no failure.
func TestAHalfMadeMachineIsNotAForeignOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{world: fake.Options{Took: map[fake.Request]time.Duration{fake.Make: 10 * time.Minute}}})
	r.jobs = 1
	r.until("it is being cloned", func() bool { return len(r.world.Things()) == 1 })
	r.world.Forget()
	r.check(r.m.Sweep(t.Context(), r.row.ID))
	r.start() // and nobody remembers that it is
	r.until("it is ready", func() bool { return r.in(store.MachineReady) == 1 })
	if n := r.world.Made(r.only().ID); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	r.untouched()
}

// A29: the answer to a delete comes to a controller that is no more. The next one finds out by itself.
func TestADeleteWhoseAnswerDiesWithTheController(t *testing.T) {
	t.Parallel()
	for n := 1; n < 8; n++ {
		t.Run(fmt.Sprint("after call ", n), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			m := r.one(store.MachineReady)
			r.finish(-1)
			_, err := r.m.Delete(t.Context(), m.ID, "ada")
			r.check(err)
			r.killIn = n
			for range 20 {
				if r.ctx.Err() != nil {
					break
				}
				r.tick()
			}
			r.start()
			r.until("it is deleted", func() bool { return r.in(store.MachineDeleted) == 1 })
			if len(r.world.Things()) > 0 || len(r.world.Drives()) > 0 {
				t.Errorf("left %+v", r.world.Things())
			}
		})
	}
}

// A30: a provider that refuses for an hour is asked for an hour, and then there is a way out.
func TestADeleteThatIsRefusedForEverHasAWayOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	r.finish(-1)
	_, err := r.m.Delete(t.Context(), m.ID, "ada")
	r.check(err)
	r.world.Deny()
	r.until("it is quarantined", func() bool { return r.in(store.MachineQuarantined) == 1 })
	if err := r.st.DeleteProvider(t.Context(), r.row.ID); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a provider with a machine was deleted: %v", err)
	}
	if _, err := r.m.Release(t.Context(), m.ID, "ada"); err != nil {
		t.Fatal(err)
	}
	if err := r.st.DeleteProvider(t.Context(), r.row.ID); err != nil {
		t.Errorf("the provider cannot be deleted: %v", err)
	}
	if n := len(r.world.Requests()); n > 3000 {
		t.Errorf("it asked %d times in an hour", n)
	}
}

// A31: the controller is killed between the row and the resource, on either side, or anywhere else on the way.
func TestAControllerThatDiesAnywhereOnTheWay(t *testing.T) {
	t.Parallel()
	for n := 1; n < 20; n++ {
		t.Run(fmt.Sprint("after call ", n), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{world: fake.Options{Took: map[fake.Request]time.Duration{fake.Make: 5 * time.Second}}})
			r.killIn = n
			r.jobs = 1
			for range 40 {
				if r.ctx.Err() != nil {
					break
				}
				r.tick()
			}
			r.start()
			r.until("it is ready", func() bool { return r.in(store.MachineReady) == 1 })
			m := r.only()
			if made := r.world.Made(m.ID); made != 1 || len(r.world.Things()) != 1 {
				t.Errorf("it was made %d times, and there are %d", made, len(r.world.Things()))
			}
		})
	}
}

// A32: a delete says that it is done while the list, or the world, still has the machine; and nothing of its name is made again.
func TestADeleteIsOverWhenTheMachineIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	liar := &liar{}
	connect := r.m.Connect
	r.m.Connect = func(ctx context.Context, row store.Provider) (provider.Provider, error) {
		p, err := connect(ctx, row)
		return lying{p, liar}, err
	}
	m := r.one(store.MachineReady)
	r.finish(-1)
	r.world.Freeze()
	liar.deletes = true
	_, err := r.m.Delete(t.Context(), m.ID, "ada")
	r.check(err)
	for range 30 {
		r.tick()
	}
	if r.in(store.MachineDeleting) != 1 {
		t.Fatalf("it believed the answer: %s", r.describe())
	}
	liar.deletes = false
	r.until("it is deleted", func() bool { return r.in(store.MachineDeleted) == 1 })
	r.check(r.m.Sweep(t.Context(), r.row.ID)) // the list still has it
	if got := r.m.Reviews(); len(got) > 0 {
		t.Errorf("what is only listed is reviewed: %+v", got)
	}
	r.world.Mend()
	r.jobs = 1
	r.until("another is ready", func() bool { return r.in(store.MachineReady) == 1 })
	for _, other := range r.machines() {
		if other.ID != m.ID && (other.Name == m.Name || other.ResourceID == m.ResourceID) {
			t.Errorf("the name or identity of %s was used again at once", m.Name)
		}
	}
}

// liar has a delete say that it is done when nothing was done.
type liar struct{ deletes bool }

type lying struct {
	provider.Provider
	liar *liar
}

func (l lying) Delete(ctx context.Context, m provider.Machine) (provider.Step, error) {
	if l.liar.deletes {
		return provider.Step{Done: true}, nil
	}
	return l.Provider.Delete(ctx, m)
}

// A36: every path to a delete goes through one place, and none passes a resource that lost its mark, got another's, or is protected.
func TestNoPathLeadsAroundTheChokePoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	other := provider.Mark{Fleet: "fleet", Machine: "mac_other", Resource: "9000", Nonce: "x"}
	edits := map[string]func(*rig, store.Machine){
		"unmarked":  func(r *rig, m store.Machine) { r.world.Unmark(m.ResourceID) },
		"replaced":  func(r *rig, m store.Machine) { r.world.Replace(m.ResourceID, nil) },
		"another's": func(r *rig, m store.Machine) { r.world.Replace(m.ResourceID, &other) },
		"protected": func(r *rig, m store.Machine) { r.world.Protect(m.ResourceID, true) },
	}
	paths := map[string]func(*rig, store.Machine){
		"an operator": func(r *rig, m store.Machine) { _, err := r.m.Delete(ctx, m.ID, "ada"); r.check(err) },
		"idle":        func(r *rig, _ store.Machine) { r.world.Advance(time.Hour) },
		"a lost host": func(r *rig, m store.Machine) { r.check(r.st.MarkHostLost(ctx, m.HostID)); r.world.Advance(time.Hour) },
		"no host":     func(r *rig, m store.Machine) { r.check(r.st.DeleteHost(ctx, m.HostID)) },
	}
	for edit, change := range edits {
		for path, take := range paths {
			t.Run(edit+", "+path, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigOptions{})
				r.reckless = edit != "protected"
				m := r.one(store.MachineReady)
				r.finish(-1)
				change(r, m)
				before := r.world.Things()[0].Serial
				take(r, m)
				r.until("it is quarantined", func() bool { return r.in(store.MachineQuarantined) == 1 })
				if x, there := r.world.Thing(m.ResourceID); !there || x.Serial != before {
					t.Errorf("it was deleted")
				}
				r.untouched()
			})
		}
	}
}

// A39: a new machine that the list does not show yet is not a machine that is gone.
func TestAListThatLags(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{world: fake.Options{Lag: 30 * time.Minute}})
	r.check(r.m.Sweep(t.Context(), r.row.ID))
	m := r.one(store.MachineReady)
	for range 5 {
		r.check(r.m.Sweep(t.Context(), r.row.ID))
		r.tick()
	}
	if now := r.only(); now.State != store.MachineReady || now.ID != m.ID {
		t.Errorf("the machine is %s: %s", now.State, now.Message)
	}
}

// A41: a draining machine with free slots is no capacity, unless its drain can be taken back.
func TestADrainingMachineIsNoCapacity(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	_, err := r.m.Drain(t.Context(), m.ID, "ada") // one runner is on it, three slots are free
	r.check(err)
	r.jobs = 2
	if _, err := r.m.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.in() != 2 {
		t.Errorf("two jobs wait for the slots of a machine that takes none: %s", r.describe())
	}
}

// What is ours and has no row is shown, and goes only when an operator says so; what is not ours stays in any case.
func TestOrphans(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	mark := provider.Mark{Fleet: "fleet", Machine: "mac_lost", Resource: "9007", Nonce: "n"}
	theirs := provider.Mark{Fleet: "other", Machine: "mac_x", Resource: "9008", Nonce: "n"}
	r.world.Put(provider.Found{Resource: provider.Resource{ID: "9007", Zone: "z1"}, Name: "zoomies-fleet-lost", Mark: &mark, Power: provider.PowerOn})
	r.world.Put(provider.Found{Resource: provider.Resource{ID: "9008", Zone: "z1"}, Name: "zoomies-other", Mark: &theirs})
	r.world.Copy("9007", "9009")
	for range 20 {
		r.world.Advance(5 * time.Minute)
		r.tick()
	}
	reviews := r.m.Reviews()
	if len(reviews) != 3 || !reviews[0].Orphan || reviews[1].Orphan || reviews[2].Orphan || len(r.world.Audit()) > 0 {
		t.Fatalf("reviewed %+v, changed %+v", reviews, r.world.Audit())
	}
	for _, id := range []string{"9008", "9009"} {
		if _, err := r.m.DeleteOrphan(t.Context(), r.row.ID, id, "ada"); !errors.Is(err, provider.ErrForeign) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := r.m.DeleteOrphan(t.Context(), r.row.ID, "9007", "ada"); err != nil {
		t.Fatal(err)
	}
	r.until("it is deleted", func() bool { return r.in(store.MachineDeleted) == 1 })
	if _, there := r.world.Thing("9007"); there || len(r.world.Things()) != 2 {
		t.Errorf("left %+v", r.world.Things())
	}
	r.untouched()
}

// A provider that hangs holds up no other.
func TestAProviderThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	slow := fake.NewWorld(fake.Options{})
	hold := make(chan struct{})
	for _, k := range []fake.Request{fake.Free, fake.Index, fake.Read} {
		slow.Inject(k, fake.Fault{Hold: hold, Times: -1})
	}
	row, err := r.st.CreateProvider(t.Context(), store.Provider{Name: "a-slow-one", Kind: "fake", Config: "{}", Enabled: true, MaxMachines: 2, Shapes: r.row.Shapes})
	r.check(err)
	connect := r.m.Connect
	r.m.Connect = func(ctx context.Context, p store.Provider) (provider.Provider, error) {
		if p.ID == row.ID {
			return slow.Provider(), nil
		}
		return connect(ctx, p)
	}
	r.jobs = 12
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.m.Run(ctx); close(done) }()
	deadline, look := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for booted := false; !booted; {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("the other provider was held up: %s", r.describe())
		}
		r.world.Advance(3 * time.Second)
		r.m.Wake()
		for _, m := range r.machines() {
			booted = booted || m.ProviderID == r.row.ID && m.State == store.MachineBootstrapping
		}
	}
	stop()
	<-done
}

// A step that changes nothing, however often it is taken, is not taken without end.
func TestAStepThatIsRefusedIsNotRepeatedWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.dead = true
	m := r.one(store.MachineBootstrapping)
	r.dead = false
	r.boot()
	r.place()
	m, err := r.st.Machine(t.Context(), m.ID)
	r.check(err)
	r.check(r.m.fail(t.Context(), m, store.MachineChange{Message: "given up although it has joined"}))
	before := len(r.world.Requests())
	r.work() // it exists, and its runners keep it from being deleted
	if n := len(r.world.Requests()) - before; n > 2*maxSteps {
		t.Errorf("it asked %d times in one moment", n)
	}
	r.finish(-1)
	r.until("it is deleted", func() bool { return r.was(m.ID, store.MachineDeleted) })
}
