package controller

import (
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// twoFleets is a fleet with a second installation, globex, that shares the one host.
func twoFleets(t *testing.T) (r *rig, acme, globex store.Pool) {
	t.Helper()
	r, acme = fleet(t, rigOptions{}, nil)
	in := r.install("globex", "globex/gears")
	return r, acme, r.pool(in, nil)
}

func (r *rig) globexJob() int64 {
	return r.gh.QueueJob(simgithub.JobSpec{Repository: "globex/gears", Labels: []string{"zoomies"}})
}

func (r *rig) installation(id string) store.Installation {
	r.t.Helper()
	in, err := r.st.Installation(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return in
}

// A21: GitHub refuses one installation. It alone is held, for as long as GitHub said; the other's jobs run meanwhile, no host slot is
// kept by what waits, and poller and reap leave the held one alone.
func TestRefusedInstallationIsHeldAlone(t *testing.T) {
	t.Parallel()
	const jit = "/orgs/acme/actions/runners/generate-jitconfig"
	for name, c := range map[string]struct {
		fault func(now time.Time) simgithub.Fault
		wait  time.Duration
	}{
		"quota used up": {func(now time.Time) simgithub.Fault {
			return simgithub.PrimaryLimit("POST", jit, now.Add(17*time.Minute))
		}, 17 * time.Minute},
		"429 retry-after": {func(time.Time) simgithub.Fault { return simgithub.SecondaryLimit("POST", jit, 429, 42*time.Second) }, 42 * time.Second},
		"403 retry-after": {func(time.Time) simgithub.Fault { return simgithub.SecondaryLimit("POST", jit, 403, 90*time.Second) }, 90 * time.Second},
		"403 secondary":   {func(time.Time) simgithub.Fault { return simgithub.SecondaryLimit("POST", jit, 403, 0) }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, acme, globex := twoFleets(t)
			began := r.clock.now()
			fault := c.fault(began)
			fault.Times = -1
			inj := r.gh.Inject(fault)
			held := r.job("ok")
			r.until("the installation is held", func() bool { return !r.installation(acme.InstallationID).HoldUntil.IsZero() })
			in := r.installation(acme.InstallationID)
			if d := in.HoldUntil.Sub(began); d < c.wait-2*time.Second || d > c.wait+5*time.Second {
				t.Errorf("held for %s, GitHub asked for %s", d, c.wait)
			}
			r.completed(r.globexJob(), "success")
			if !r.installation(globex.InstallationID).HoldUntil.IsZero() {
				t.Error("the other installation is held too")
			}
			r.until("no slot is kept by a runner that cannot be minted", func() bool { return len(r.live()) == 0 })
			asked := r.gh.Stats().Rate[in.InstallationID]["core"].Used
			hits := inj.Hits()
			polling := r.c().settings()
			polling.PollFallback = true
			r.c().Apply(polling)
			r.c().pollInstallation(t.Context(), in, &pollState{})
			if err := r.c().reapInstallation(t.Context(), in); err != nil {
				t.Error(err)
			}
			for range 3 {
				if _, err := r.c().pass(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if now := r.gh.Stats().Rate[in.InstallationID]["core"].Used; now != asked || inj.Hits() != hits || hits > 2 {
				t.Errorf("GitHub was asked %d times more, and for %d registrations, although it asked us to wait", now-asked, inj.Hits())
			}
			inj.Remove()
			r.clock.advance(c.wait + 5*time.Second)
			r.c().reconcile.Set() // the timer of the pass that saw the hold does so in time
			r.completed(held, "success")
			r.nothingLeft()
		})
	}
}

// A21: the pass that sees a hold comes again when it ends, not a tick later.
func TestPassWaitsForTheEndOfAHold(t *testing.T) {
	t.Parallel()
	r, acme := fleet(t, rigOptions{}, nil)
	if err := r.st.HoldInstallation(t.Context(), acme.InstallationID, r.clock.now().Add(time.Minute), "a test says so"); err != nil {
		t.Fatal(err)
	}
	id := r.job("ok")
	r.until("the job is known", func() bool { js, err := r.st.Jobs(t.Context(), store.JobFilter{}); return err == nil && len(js) == 1 })
	next, err := r.c().pass(t.Context())
	if err != nil || next > time.Minute+time.Second {
		t.Errorf("the next pass comes in %s: %v", next, err)
	}
	if s := r.gh.Job(id).Status; s != simgithub.StatusQueued || r.gh.Stats().Mints != 0 {
		t.Errorf("the job is %s although its installation is held", s)
	}
}

// A31: the answer to a mint is lost. The name that was chosen in advance is looked for; one registration is all there ever is.
func TestLostMintAnswerLeavesOneRegistration(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	inj := r.gh.Inject(simgithub.LostAnswer("POST", "/orgs/acme/actions/runners/generate-jitconfig"))
	r.completed(r.job("ok"), "success")
	r.nothingLeft()
	if st := r.gh.Stats(); inj.Hits() != 1 || st.Mints != 2 || len(r.runners()) != 1 {
		t.Errorf("%d lost answers, %d registrations made, %d rows", inj.Hits(), st.Mints, len(r.runners()))
	}
}

// A31: the controller is stopped between a runner's row and its registration, and between that and its task. The next one finishes both
// with one runner.
func TestRowWithoutATaskIsFinishedAfterARestart(t *testing.T) {
	t.Parallel()
	for name, minted := range map[string]bool{"before the registration": false, "after the registration": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := fleet(t, rigOptions{}, nil)
			r.until("the host has joined", func() bool { return r.hostRow("host-1").ID != "" })
			host := r.hostRow("host-1")
			r.stopController()
			r.gh.SetWebhookURL("")
			id := r.job("ok")
			ch, err := r.st.UpsertJob(t.Context(), store.JobUpdate{InstallationID: p.InstallationID, GitHubID: id, RunID: 1, Repository: "acme/widgets", Labels: []string{"zoomies"}, State: store.JobQueued})
			if err != nil {
				t.Fatal(err)
			}
			fleetID, err := fleetID(t.Context(), r.st)
			if err != nil {
				t.Fatal(err)
			}
			row := store.Runner{
				ID: "run_crashed", Name: runnerName(fleetID, p.Name, "run_crashed"), PoolID: p.ID, HostID: host.ID, InstallationID: p.InstallationID,
				Backend: p.Backend, Image: p.Image, DemandJobID: ch.Job.ID, Ephemeral: true,
			}
			if err := r.st.CreateRunners(t.Context(), []store.Runner{row}); err != nil {
				t.Fatal(err)
			}
			if minted {
				if _, _, err := r.gh.Register("acme", row.Name, "zoomies"); err != nil {
					t.Fatal(err)
				}
			}
			r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
			r.startController()
			if j := r.completed(id, "success"); j.RunnerName != row.Name {
				t.Errorf("the job ran on %s", j.RunnerName)
			}
			r.nothingLeft()
			if n := len(r.runners()); n != 1 {
				t.Errorf("%d rows for one job", n)
			}
		})
	}
}

// A31: GitHub takes a name that the list does not show yet. That is not asked for without end.
func TestNameThatIsTakenAndNotListedIsNotLoopedOn(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	r.gh.SetListLag(time.Hour)
	r.gh.Inject(simgithub.LostAnswer("POST", "/orgs/acme/actions/runners/generate-jitconfig"))
	id := r.job("ok")
	r.until("the runner is given up", func() bool { rs := r.runners(); return len(rs) == 1 && rs[0].State == store.RunnerFailed })
	if st := r.gh.Stats(); st.Requests["POST /orgs/{org}/actions/runners/generate-jitconfig"] > 2*mintTries {
		t.Errorf("asked %d times", st.Requests["POST /orgs/{org}/actions/runners/generate-jitconfig"])
	}
	r.gh.SetListLag(0)
	r.clock.advance(r.set.Scheduler.StartBackoff + time.Second)
	r.c().reconcile.Set()
	r.completed(id, "success")
	if err := r.c().reapInstallation(t.Context(), r.installation(p.InstallationID)); err != nil {
		t.Fatal(err)
	}
	r.until("the reap has found the lost registration", func() bool { return len(r.gh.Runners()) == 0 })
}

// An outage of GitHub is borne: the mint is tried again.
func TestMintIsTriedAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	out := simgithub.Outage("POST", "/orgs/acme/actions/runners/generate-jitconfig")
	out.Times = 1
	r.gh.Inject(out)
	r.completed(r.job("ok"), "success")
	r.nothingLeft()
	if n := len(r.runners()); n != 1 {
		t.Errorf("%d runners", n)
	}
}

// A22: a host is cut off in the middle of a job. Within one reap its ghost is gone from GitHub: only ours, and never a busy one.
func TestGhostsOfALostHostAreReaped(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	foreign := r.gh.AddForeignRunner("zoomies-others-acme-1")
	id := r.job("wait")
	r.waitJob(id, simgithub.StatusInProgress, "")
	busy := r.runner(store.RunnerBusy)
	ghost, _, err := r.gh.Register("acme", namePrefix(r.c().fleet)+"acme-forgotten", "zoomies")
	if err != nil {
		t.Fatal(err)
	}
	in := r.installation(p.InstallationID)
	if err := r.c().reapInstallation(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	has := func(id int64) bool {
		for _, x := range r.gh.Runners() {
			if x.ID == id {
				return true
			}
		}
		return false
	}
	if has(ghost) || !has(foreign) || !has(busy.GitHubID) {
		t.Errorf("after the reap: ghost there %t, another fleet's there %t, busy one there %t", has(ghost), has(foreign), has(busy.GitHubID))
	}
	r.gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Drop })
	r.hosts[0].kill()
	r.gh.SetLostAfter(10 * time.Millisecond)
	r.until("GitHub has lost contact", func() bool {
		r.gh.Sweep()
		return r.gh.Job(id).Conclusion == simgithub.ConclusionFailure
	})
	if j := r.jobRow(in.ID, id); j.State != store.JobInProgress {
		t.Fatalf("the job is %s here", j.State)
	}
	r.clock.advance(HostLostAfter)
	r.c().housekeep(t.Context())
	r.until("the runner is failed and its registration deleted", func() bool {
		rs := r.runners()
		return len(rs) == 1 && rs[0].State == store.RunnerFailed && rs[0].Deregistered && !has(busy.GitHubID)
	})
	if j := r.jobRow(in.ID, id); j.FleetFault == "" {
		t.Error("the job that was lost with its host is not the fleet's failure")
	}
	if !has(foreign) {
		t.Error("another fleet's registration was deleted")
	}
}

// A retirement that GitHub answers with an error is not tried at every event.
func TestFailingRetirementIsNotAHotLoop(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min, p.IdleTimeout = 1, 0 })
	r.idle()
	inj := r.gh.Inject(simgithub.Outage("DELETE", "/orgs/acme/actions/runners/*"))
	p.Min = 0
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.c().reconcile.Set()
	r.until("it was tried", func() bool { return inj.Hits() > 0 })
	for range 50 {
		if _, err := r.c().pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := inj.Hits(); n > 2 {
		t.Errorf("GitHub was asked %d times in a moment", n)
	}
	inj.Remove()
	r.clock.advance(crewRetryMin + time.Second)
	r.c().reconcile.Set()
	r.nothingLeft()
}

// A runner that a stale list names again is not minted a second time: that would delete the registration of a runner that lives.
func TestRunnerIsMintedOnce(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	create := h.task()
	row := r.runner(store.RunnerProvisioning)
	r.c().mint(t.Context(), row) // as it was listed before its task was written
	if rs := r.gh.Runners(); len(rs) != 1 || rs[0].ID != row.GitHubID {
		t.Errorf("the registrations are %+v, the runner has %d", rs, row.GitHubID)
	}
	if got := r.runner(store.RunnerProvisioning); got.ID != create.RunnerID {
		t.Errorf("the runner is %+v", got)
	}
}
