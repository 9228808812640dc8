package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// held is a fleet whose engine holds every create until the gate is opened.
func held(t *testing.T, change func(*store.Pool)) (r *rig, at <-chan string, open func()) {
	t.Helper()
	r, _ = fleet(t, rigOptions{}, change)
	e := r.hosts[0].engine
	began := make(chan string, 100)
	e.mu.Lock()
	e.at, e.gate = began, make(chan struct{})
	e.mu.Unlock()
	return r, began, func() { close(e.gate) }
}

func next(t *testing.T, at <-chan string) string {
	t.Helper()
	select {
	case id := <-at:
		return id
	case <-time.After(patience):
		t.Fatal("no workload was asked for")
		return ""
	}
}

// A8: a job is cancelled while its runner boots. The runner is withdrawn: it must not wait for ever, nor steal a later job.
func TestJobCancelledWhileItsRunnerBoots(t *testing.T) {
	t.Parallel()
	r, at, open := held(t, nil)
	id := r.job("ok")
	next(t, at)
	r.gh.CancelJob(id)
	r.until("the runner is told to go", func() bool { return len(r.runners()) == 1 && r.runners()[0].State != store.RunnerProvisioning })
	open()
	r.nothingLeft()
	if n := len(r.runners()); n != 1 {
		t.Errorf("%d runners for one cancelled job", n)
	}
}

// A9: a runner is taken by a job of a repository that we do not serve. The job that it was made for gets another, and only one.
func TestRunnerTakenByAForeignJobIsReplaced(t *testing.T) {
	t.Parallel()
	r, at, open := held(t, nil)
	ours := r.job("ok")
	next(t, at)
	// Queued first of all at GitHub, since the runner is not online yet; its webhooks reach nobody.
	thief := r.gh.QueueJob(simgithub.JobSpec{Repository: "acme/unserved", Labels: []string{"zoomies"}, Steps: []simgithub.Step{{Run: "wait"}}})
	r.gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Drop })
	r.gh.HoldJob(ours)
	open()
	r.waitJob(thief, simgithub.StatusInProgress, "")
	r.gh.ReleaseJob(ours)
	r.gh.SetDeliveryPolicy(nil)
	r.idle()
	r.clock.advance(idleSuspect)
	r.c().housekeep(t.Context())
	r.completed(ours, "success")
	r.finishJob(thief)
	r.completed(thief, "success")
	r.nothingLeft()
	if n := len(r.runners()); n != 2 {
		t.Errorf("%d runners for one job of ours and a foreign one", n)
	}
}

// A24: GitHub deletes the registration of an idle runner, as it does within minutes. The runner goes, and is replaced where it is needed.
func TestIdleRegistrationDeletedByGitHubIsReplaced(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 1 })
	first := r.idle()
	if !r.gh.RemoveRunner(first.GitHubID) {
		t.Fatal("GitHub did not delete the registration")
	}
	r.until("another runner is starting", func() bool {
		live := r.live()
		return len(live) == 1 && live[0].ID != first.ID
	})
	r.idle()
	r.completed(r.job("ok"), "success")
}

// A24: the same when the runner itself never notices: the reap finds it out.
func TestRunnerThatMissedTheEndOfItsRegistrationIsReplaced(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 1 })
	first := r.idle()
	r.hosts[0].engine.deafen(first.ID)
	r.gh.RemoveRunner(first.GitHubID)
	in, err := r.st.Installation(t.Context(), p.InstallationID)
	if err != nil {
		t.Fatal(err)
	}
	reap := func() {
		if err := r.c().reapInstallation(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	reap()
	if got := r.runner(store.RunnerIdle); got.ID != first.ID {
		t.Fatal("a runner that the list may merely not show yet was replaced")
	}
	r.clock.advance(goneGrace + time.Second)
	reap()
	r.until("another runner is starting", func() bool {
		live := r.live()
		return len(live) == 1 && live[0].ID != first.ID
	})
	r.idle()
}

// A25: GitHub refuses the version of the image's runner. That is a problem with a name, and not recreated without end.
func TestDeprecatedRunnerIsANamedProblem(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	r.hosts[0].engine.setBoot(func(backend.Spec) (string, int, bool) {
		return "An error occurred: Runner version v2.300.0 is deprecated and cannot receive messages.\n", 1, true
	})
	r.job("ok")
	r.until("the problem is named", func() bool { return hasProblem(r.c(), problems.RunnerVersion) })
	r.settle(1)
	if n := len(r.runners()); n != 1 {
		t.Errorf("%d runners were made of an image that GitHub refuses, with no wait between them", n)
	}
	r.clock.advance(p.ScaleUpDelay + r.set.Scheduler.StartBackoff + time.Second)
	r.c().reconcile.Set()
	r.until("it is tried again after the backoff", func() bool { return len(r.runners()) == 2 && len(r.live()) == 0 })
	r.hosts[0].engine.setBoot(nil)
	r.clock.advance(r.set.Scheduler.MaxStartBackoff)
	r.c().reconcile.Set()
	r.until("the problem is over once a runner has run a job", func() bool { return !hasProblem(r.c(), problems.RunnerVersion) })
}

func hasProblem(c *Controller, code problems.Code) bool {
	for _, p := range c.Problems() {
		if p.Code == code {
			return true
		}
	}
	return false
}

// A33: a runner that crashes at its start is waited longer for each time.
func TestCrashesAtStartBackOff(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	r.hosts[0].engine.setBoot(func(backend.Spec) (string, int, bool) { return "panic", 2, true })
	r.job("ok")
	for n := 1; n <= 5; n++ {
		r.settle(n)
		if got := len(r.runners()); got != n {
			t.Fatalf("%d runners after %d crashes and waits", got, n)
		}
		r.clock.advance(r.set.Scheduler.StartBackoff<<(n-1) + time.Second)
		r.c().reconcile.Set()
	}
}

// A33: runners that end well at once, and for nothing, are no crash that anybody counts; their pool is made to wait all the same.
func TestRunnersThatEndForNothingAreNotRecreatedWithoutEnd(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	r.hosts[0].engine.setBoot(func(backend.Spec) (string, int, bool) { return "hello from docker", 0, true })
	id := r.job("ok")
	r.until("the problem is named", func() bool { return hasProblem(r.c(), problems.IdleExits) })
	r.settle(idleExitsBorne + 1)
	if n := len(r.runners()); n != idleExitsBorne+1 {
		t.Errorf("%d runners, want %d and then a wait", n, idleExitsBorne+1)
	}
	r.hosts[0].engine.setBoot(nil)
	r.clock.advance(r.set.Scheduler.StartBackoff + time.Second)
	r.c().reconcile.Set()
	r.completed(id, "success")
	r.until("the problem is over", func() bool { return !hasProblem(r.c(), problems.IdleExits) })
}

// A33: GitHub's list still shows a runner that has ended. Nobody counts it, and its job's successor gets its own at once.
func TestEndedRunnerThatGitHubStillListsIsNoCapacity(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	r.gh.SetListLag(time.Minute)
	for range 3 {
		r.completed(r.job("ok"), "success")
		r.nothingLeft()
	}
	in, err := r.st.Installation(t.Context(), p.InstallationID)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.c().reapInstallation(t.Context(), in); err != nil {
		t.Errorf("the reap stumbled over runners that only the list still shows: %v", err)
	}
	if n := len(r.runners()); n != 3 {
		t.Errorf("%d runners for three jobs", n)
	}
}

// A37: a job is given to a runner in the instant of its retirement. GitHub refuses to delete it, and the job survives.
func TestJobGivenInTheInstantOfRetirementSurvives(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 1 })
	idle := r.idle()
	r.gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Hold })
	id := r.job("wait") // the controller does not hear that it runs
	r.waitJob(id, simgithub.StatusInProgress, "")
	if err := r.c().tryRetire(t.Context(), idle.ID, "a test says so"); err != nil {
		t.Fatal(err)
	}
	got, err := r.st.Runner(t.Context(), idle.ID)
	if err != nil || got.State != store.RunnerBusy {
		t.Fatalf("the runner is %s: %v", got.State, err)
	}
	r.gh.SetDeliveryPolicy(nil)
	r.gh.ReleaseHeld(nil)
	r.finishJob(id)
	r.completed(id, "success")
}

// A41, A46: a host that is cordoned, or whose engine does not answer its probe, gets nothing, and no registration is minted for it.
func TestHostsThatTakeNothingMintNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testHost, store.Host){
		"cordoned": func(h *testHost, row store.Host) {
			if err := h.r.st.SetHostCordoned(h.r.t.Context(), row.ID, true); err != nil {
				h.r.t.Fatal(err)
			}
		},
		"probe fails": func(h *testHost, _ store.Host) {
			h.engine.Inject(fake.OpProbe, fake.Fault{Err: backend.ErrUnavailable, Times: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := fleet(t, rigOptions{}, nil)
			h := r.hosts[0]
			r.until("the host has joined", func() bool { return r.hostRow(h.name).ID != "" })
			row := r.hostRow(h.name)
			spoil(h, row)
			r.until("the controller knows", func() bool {
				row := r.hostRow(h.name)
				return row.Cordoned || row.Backends[0].Error != ""
			})
			id := r.job("ok")
			r.until("the job is known", func() bool {
				js, err := r.st.Jobs(t.Context(), store.JobFilter{})
				return err == nil && len(js) == 1
			})
			r.settle(0)
			if st := r.gh.Stats(); st.Mints != 0 || len(r.runners()) != 0 {
				t.Errorf("%d registrations were minted, %d rows written for a host that takes nothing", st.Mints, len(r.runners()))
			}
			if err := r.st.SetHostCordoned(t.Context(), row.ID, false); err != nil {
				t.Fatal(err)
			}
			h.engine.Mend(fake.OpProbe)
			if row.Cordoned = strings.HasPrefix(name, "cord"); row.Cordoned {
				r.c().reconcile.Set() // what the API does
			}
			r.completed(id, "success") // without any tick: a heartbeat that says so is an event
		})
	}
}
