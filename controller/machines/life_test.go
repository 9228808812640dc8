package machines

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

// Demand is capacity: thirty jobs and machines of four slots are eight machines, that are given back when the jobs are done.
func TestAWholeLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{world: fake.Options{Took: map[fake.Request]time.Duration{fake.Make: 20 * time.Second, fake.Stop: 5 * time.Second, fake.Destroy: 3 * time.Second}}})
	r.jobs = 30
	r.until("every job runs", func() bool { return r.jobs == 0 })
	if n := r.in(); n != 8 {
		t.Errorf("%d machines for 30 jobs, 4 on each: %s", n, r.describe())
	}
	r.until("all are ready and settled", func() bool { return r.in(store.MachineReady) == 8 })
	if d := r.world.Drives(); len(d) > 0 {
		t.Errorf("drives with secrets are left: %v", d)
	}
	for _, m := range r.machines() {
		if m.CreatingAt.IsZero() || m.BuiltAt.Before(m.CreatingAt) || m.BootedAt.Before(m.BuiltAt) || m.JoinedAt.IsZero() || m.FirstJobAt.IsZero() || !m.Settled {
			t.Errorf("its stages are %+v", m)
		}
	}
	r.finish(-1)
	r.until("nothing is left", func() bool { return r.in() == 0 })
	if len(r.world.Things()) > 0 {
		t.Errorf("left %+v", r.world.Things())
	}
	if hosts, err := r.st.Hosts(t.Context()); err != nil || len(hosts) > 0 {
		t.Errorf("hosts %v, %v", hosts, err)
	}
	r.untouched()
}

// Each transition has a cause of its own.
func TestCauses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, tt := range []struct {
		name  string
		from  store.MachineState
		cause func(*rig, store.Machine)
		to    store.MachineState
	}{
		{"no identity is left", store.MachinePlanned, func(r *rig, _ store.Machine) {
			r.world.Fill(true)
		}, store.MachineFailed},
		{"a human has taken the identity", store.MachineCreating, func(r *rig, m store.Machine) {
			r.world.Replace(m.ResourceID, nil)
		}, store.MachineFailed},
		{"the guest never comes up", store.MachineBootstrapping, func(r *rig, _ store.Machine) { r.dead = true }, store.MachineFailed},
		{"deleted at the provider while it boots", store.MachineBootstrapping, func(r *rig, m store.Machine) {
			r.dead = true
			r.world.Vanish(m.ResourceID)
		}, store.MachineFailed},
		{"its guest is heard and it does not join", store.MachineBootstrapping, func(r *rig, m store.Machine) {
			r.dead = true
			r.check(r.m.Heard(ctx, m.ID))
		}, store.MachineFailed},
		{"idle", store.MachineReady, func(r *rig, _ store.Machine) { r.finish(-1) }, store.MachineDraining},
		{"drained by an operator", store.MachineReady, func(r *rig, m store.Machine) {
			_, err := r.m.Drain(ctx, m.ID, "ada")
			r.check(err)
		}, store.MachineDraining},
		{"deleted by an operator", store.MachineReady, func(r *rig, m store.Machine) {
			r.finish(-1)
			_, err := r.m.Delete(ctx, m.ID, "ada")
			r.check(err)
		}, store.MachineDeleting},
		{"its host was deleted", store.MachineReady, func(r *rig, m store.Machine) {
			r.finish(-1)
			r.check(r.st.DeleteHost(ctx, m.HostID))
		}, store.MachineDeleting},
		{"its host is lost", store.MachineReady, func(r *rig, m store.Machine) {
			r.finish(-1)
			r.check(r.st.MarkHostLost(ctx, m.HostID))
			r.dead = true
		}, store.MachineDeleting},
		{"deleted at the provider", store.MachineReady, func(r *rig, m store.Machine) { r.world.Vanish(m.ResourceID) }, store.MachineDeleting},
		{"it is not ours after all", store.MachineReady, func(r *rig, m store.Machine) { r.world.Unmark(m.ResourceID) }, store.MachineQuarantined},
		{"the delete cannot be confirmed", store.MachineReady, func(r *rig, m store.Machine) {
			r.world.Protect(m.ResourceID, true)
			r.finish(-1)
			_, err := r.m.Delete(ctx, m.ID, "ada")
			r.check(err)
		}, store.MachineQuarantined},
		{"the resource of a failed one turns up", store.MachineBootstrapping, func(r *rig, m store.Machine) {
			r.dead = true
			r.check(r.m.fail(ctx, m, store.MachineChange{Message: "given up"}))
		}, store.MachineDeleting},
		{"what became of the create is never known", store.MachineCreating, func(r *rig, m store.Machine) {
			r.world.Vanish(m.ResourceID)
			r.world.Leave(hand{Manager: r.m}.machine(m))
		}, store.MachineQuarantined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.jobs = 1
			var m store.Machine
			if tt.from == store.MachinePlanned {
				_, err := r.m.Pass(ctx)
				r.check(err)
				m = r.only()
			} else {
				m = r.to(tt.from)
			}
			tt.cause(r, m)
			r.jobs = 0
			r.until("it is "+string(tt.to), func() bool { return r.was(m.ID, tt.to) })
			r.untouched()
		})
	}
}

// to brings a machine to a state step by step, so that no state is missed.
func (r *rig) to(state store.MachineState) store.Machine {
	r.t.Helper()
	for range 200 {
		_, err := r.m.Pass(r.ctx)
		r.check(err)
		m := r.only()
		if m.State == state {
			return m
		}
		_, err = r.m.step(r.ctx, m)
		r.check(err)
		if now := r.only(); now.State == state {
			return now
		} else if now.State == store.MachineBootstrapping || now.State == store.MachineEnrolling {
			r.boot()
		}
		if d, ok := r.world.Next(); ok {
			r.world.Advance(d)
		}
	}
	r.t.Fatalf("it never was %s: %s", state, r.describe())
	return store.Machine{}
}

// Demand that comes back takes a drain back before anything is rented; a machine that an operator drains stays drained.
func TestDemandReversesADrain(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"", "ada"} {
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			m := r.one(store.MachineReady)
			r.finish(-1)
			if _, _, err := r.st.TransitionMachine(t.Context(), m.ID, store.MachineDraining, store.MachineChange{By: by}); err != nil {
				t.Fatal(err)
			}
			r.jobs = 3
			if _, err := r.m.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, err := r.st.Machine(t.Context(), m.ID)
			r.check(err)
			h, err := r.st.Host(t.Context(), m.HostID)
			if by == "" && (err != nil || now.State != store.MachineReady || h.Cordoned || h.Draining || r.in() != 1) {
				t.Errorf("the machine is %s, the host %+v (%v)", now.State, h, err)
			}
			if by != "" && (now.State == store.MachineReady || r.in() != 2) {
				t.Errorf("the machine is %s: %s", now.State, r.describe())
			}
		})
	}
}

// A37: a runner that is placed in the instant of the drain keeps the machine.
func TestADrainIsAtomic(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	r.jobs = 1
	r.place()
	if _, _, err := r.st.TransitionMachine(t.Context(), m.ID, store.MachineDraining, store.MachineChange{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a busy machine was drained as an idle one: %v", err)
	}
	r.finish(-1)
	if _, _, err := r.st.TransitionMachine(t.Context(), m.ID, store.MachineDraining, store.MachineChange{}); err != nil {
		t.Fatal(err)
	}
	rs := []store.Runner{{Name: "zoomies-late", PoolID: r.pool.ID, HostID: m.HostID, InstallationID: r.pool.InstallationID}}
	r.check(r.st.CreateRunners(t.Context(), rs)) // by a pass that had read the host before
	if _, _, err := r.st.TransitionMachine(t.Context(), m.ID, store.MachineDeleting, store.MachineChange{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a machine with a runner is being deleted: %v", err)
	}
}

// A machine's token admits its own name alone, once, and dies with the machine.
func TestAMachineJoinsUnderItsOwnName(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.dead = true
	m := r.one(store.MachineBootstrapping)
	x, ok := r.world.Thing(m.ResourceID)
	if !ok || len(x.Booted) == 0 {
		t.Fatalf("it has booted from nothing: %+v", x)
	}
	hash, err := r.st.JoinToken(t.Context(), m.JoinTokenID)
	r.check(err)
	if hash.HostName != m.Name || hash.ExpiresAt.Sub(r.world.Now()) > time.Hour {
		t.Errorf("the token admits %q until %s", hash.HostName, hash.ExpiresAt)
	}
	if _, _, err := r.st.JoinHost(t.Context(), hash.Hash, "other", "x", store.HostUpdate{}); !errors.Is(err, store.ErrTokenSpent) {
		t.Errorf("another name was let in: %v", err)
	}
	if _, err := r.st.CreateJoinToken(t.Context(), store.JoinToken{Hash: "theirs", ExpiresAt: r.world.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.st.JoinHost(t.Context(), "theirs", m.Name, "x", store.HostUpdate{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another took the machine's name: %v", err)
	}
	r.check(r.m.fail(t.Context(), m, store.MachineChange{Message: "given up"}))
	if err := r.join(x.Booted, 4); !errors.Is(err, store.ErrTokenSpent) {
		t.Errorf("a machine that was given up joined: %v", err)
	}
}

// A create that is resumed writes a new drive, with a new token; the one before is void.
func TestAResumedCreateHasANewToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.world.Inject(fake.WriteDrive, fake.LostBefore)
	r.jobs = 1
	r.until("a token was made", func() bool { r2 := r.machines(); return len(r2) == 1 && r2[0].JoinTokenID != "" })
	first := r.only().JoinTokenID
	r.start()
	r.until("it is ready", func() bool { return r.in(store.MachineReady) == 1 })
	if _, err := r.st.JoinToken(t.Context(), first); !errors.Is(err, store.ErrNotFound) || r.only().JoinTokenID == first {
		t.Errorf("the first token is still there: %v", err)
	}
}

// Neither a create nor a delete without the lease.
func TestNothingIsDoneWithoutTheLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	r.finish(-1)
	_, err := r.m.Delete(t.Context(), m.ID, "ada")
	r.check(err)
	r.leased = errors.New("another controller has it")
	r.jobs = 5
	before := len(r.world.Audit())
	for range 100 {
		r.tick()
	}
	if got := r.world.Audit()[before:]; len(got) > 0 {
		t.Errorf("without its lease it did %+v", got)
	}
	r.leased = nil
	r.jobs = 0
	r.until("it is deleted", func() bool { return r.in(store.MachineDeleted) >= 1 })
}

// Nothing automatic leaves quarantine; an operator releases, and what is there stays.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	r.world.Unmark(m.ResourceID)
	r.until("it is quarantined", func() bool { return r.in(store.MachineQuarantined) == 1 })
	r.finish(-1)
	before := len(r.world.Audit())
	for range 50 {
		r.world.Advance(10 * time.Minute)
		r.tick()
	}
	if r.in(store.MachineQuarantined) != 1 || len(r.world.Audit()) != before {
		t.Fatalf("something was done about it: %s", r.describe())
	}
	if _, err := r.m.Delete(t.Context(), m.ID, "ada"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("it could be deleted: %v", err)
	}
	if _, _, err := r.st.TransitionMachine(t.Context(), m.ID, store.MachineDeleted, store.MachineChange{}); !errors.Is(err, store.ErrTransition) {
		t.Errorf("it left by itself: %v", err)
	}
	if m, err := r.m.Release(t.Context(), m.ID, "ada"); err != nil || m.State != store.MachineDeleted || m.ReleasedBy != "ada" {
		t.Errorf("released %+v, %v", m, err)
	}
	for range 50 {
		r.tick()
	}
	if _, there := r.world.Thing(m.ResourceID); !there || len(r.world.Audit()) != before {
		t.Error("a release touched the resource")
	}
}

// After a restored database nothing is made or deleted until every row was proved.
func TestFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	m := r.one(store.MachineReady)
	r.finish(-1)
	_, err := r.m.Delete(t.Context(), m.ID, "ada")
	r.check(err)
	r.check(r.st.FenceProviders(t.Context(), "restored"))
	r.start()
	r.world.Deny(fake.Read)
	r.jobs = 4
	before := len(r.world.Audit())
	for range 100 {
		r.tick()
	}
	if p, err := r.st.Provider(t.Context(), r.row.ID); err != nil || p.FencedAt.IsZero() || len(r.world.Audit()) != before || r.in() != 1 {
		t.Fatalf("fenced %s (%v), %d changes, machines: %s", p.FencedAt, err, len(r.world.Audit())-before, r.describe())
	}
	r.world.Mend()
	r.until("the fence is lifted and work goes on", func() bool { return r.in(store.MachineDeleted) == 1 && r.in(store.MachineReady) == 1 })
	p, err := r.st.Provider(t.Context(), r.row.ID)
	if err != nil || !p.FencedAt.IsZero() {
		t.Errorf("fenced since %s (%v)", p.FencedAt, err)
	}
}

// What a dead worker left half made, locked for ever, is known when it has been looked at: the fence ends, the machine does not.
func TestAHalfMadeThingDoesNotHoldAFenceUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.world.DieNext(fake.Make)
	r.jobs = 4
	r.until("the making breaks off", func() bool { return len(r.world.Things()) == 1 && r.world.Things()[0].Locked != "" })
	r.jobs = 0
	r.check(r.st.FenceProviders(t.Context(), "restored"))
	r.start()
	r.until("the fence is lifted", func() bool {
		p, err := r.st.Provider(t.Context(), r.row.ID)
		return err == nil && p.FencedAt.IsZero()
	})
	r.until("the machine is an operator's", func() bool { return r.in(store.MachineQuarantined) == 1 })
	if things := r.world.Things(); len(things) != 1 {
		t.Errorf("%d things are left, want the half-made one", len(things))
	}
}

// Three failures in a row are a rest, and the rest widens; a success ends it.
func TestStandDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.world.Inject(fake.Make, fake.Fault{Err: provider.ErrQuota, Times: -1})
	r.jobs = 4
	var rests []time.Duration
	r.until("it has rested four times", func() bool {
		p, err := r.st.Provider(t.Context(), r.row.ID)
		r.check(err)
		if d := p.HeldUntil.Sub(p.FailedAt); d > 0 && (len(rests) == 0 || d > rests[len(rests)-1]) {
			rests = append(rests, d)
			if p.FailureStreak < 3 {
				t.Errorf("a rest after %d failures", p.FailureStreak)
			}
		}
		return len(rests) == 4
	})
	if want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute}; len(rests) != 4 || rests[0] != want[0] || rests[3] != want[3] {
		t.Errorf("the rests are %s, want %s", rests, want)
	}
	r.world.Mend()
	r.until("it works again", func() bool { return r.in(store.MachineReady) == 1 })
	if p, err := r.st.Provider(t.Context(), r.row.ID); err != nil || p.FailureStreak != 0 || !p.HeldUntil.IsZero() {
		t.Errorf("the streak is %d, held until %s (%v)", p.FailureStreak, p.HeldUntil, err)
	}
}
