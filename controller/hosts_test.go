package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// scripted is a host whose agent's every word a test says.
type scripted struct {
	r    *rig
	cred protocol.Credential
}

// scripted joins a host without an agent.
func (r *rig) scripted(name string) scripted {
	r.t.Helper()
	token, err := r.c().NewJoinToken(r.t.Context(), name, false, time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.c().Agents().Join(r.t.Context(), protocol.JoinRequest{Token: token, Name: name, Version: "test", Host: hostInfo()})
	if err != nil {
		r.t.Fatal(err)
	}
	return scripted{r, protocol.Credential{HostID: resp.HostID, Token: resp.AgentToken, Instance: "one"}}
}

func hostInfo() protocol.HostInfo {
	return protocol.HostInfo{OS: "linux", Arch: "amd64", CPUs: 4, MemoryMB: 8192, Capacity: 10, Backends: []protocol.BackendInfo{{Name: "podman"}}}
}

func (s scripted) beat() {
	s.r.t.Helper()
	if _, err := s.r.c().Agents().Heartbeat(s.r.t.Context(), s.cred, protocol.Heartbeat{Version: "test", Host: hostInfo()}); err != nil {
		s.r.t.Fatal(err)
	}
}

// task waits for the next task.
func (s scripted) task() protocol.Task {
	s.r.t.Helper()
	ctx, cancel := context.WithTimeout(s.r.t.Context(), patience)
	defer cancel()
	for {
		t, err := s.r.c().Agents().Poll(ctx, s.cred, patience)
		if err != nil {
			s.r.t.Fatalf("no task: %v\n%s", err, s.r.state())
		}
		if t != nil {
			return *t
		}
	}
}

func (s scripted) answer(t protocol.Task, ok bool, why string) error {
	return s.r.c().Agents().Result(s.r.t.Context(), s.cred, protocol.TaskResult{TaskID: t.ID, Attempt: t.Attempt, OK: ok, Error: why, WorkloadID: "wl-" + t.RunnerID, StartedAt: s.r.clock.now()})
}

func (s scripted) report(reps ...protocol.RunnerReport) {
	s.r.t.Helper()
	if _, err := s.r.c().Agents().Report(s.r.t.Context(), s.cred, reps); err != nil {
		s.r.t.Fatal(err)
	}
}

// report says that a runner has ended so.
func report(r store.Runner, state store.RunnerState, exit *int) protocol.RunnerReport {
	return protocol.RunnerReport{RunnerID: r.ID, State: string(state), Phase: protocol.PhaseExited, ExitCode: exit, WorkloadID: r.WorkloadID}
}

// joinRow is the row of a scripted host.
func joinRow(t *testing.T, r *rig, name string) store.Host {
	t.Helper()
	s := r.scripted(name)
	h, err := r.st.Host(t.Context(), s.cred.HostID)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// noAgents is a fleet whose one host is scripted.
func noAgents(t *testing.T, change func(*store.Pool)) (*rig, store.Pool, scripted) {
	t.Helper()
	r := newRig(t, rigOptions{})
	in := r.install("acme", "acme/widgets")
	p := r.pool(in, change)
	r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
	return r, p, r.scripted("host-1")
}

// A host is late, then unhealthy, then lost. Unhealthy it gets nothing new, lost it loses its runners, and their jobs are the fleet's failure.
func TestHostIsUnhealthyAndThenLost(t *testing.T) {
	t.Parallel()
	r, p, h := noAgents(t, nil)
	id := r.job("wait")
	create := h.task()
	if err := h.answer(create, true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": id, "runner_name": row.Name}), "")
	r.runner(store.RunnerBusy)

	r.clock.advance(91 * time.Second)
	r.c().housekeep(t.Context())
	r.settle(0) // a pass that began before has ended
	r.job("ok")
	r.until("the second job is known", func() bool { js, err := r.st.Jobs(t.Context(), store.JobFilter{}); return err == nil && len(js) == 2 })
	r.settle(0)
	if n := len(r.runners()); n != 1 {
		t.Errorf("an unhealthy host was given a runner: %d rows", n)
	}
	if got := r.runner(store.RunnerBusy); got.ID != row.ID {
		t.Error("a runner was failed on a host that is only unhealthy")
	}
	r.clock.advance(HostLostAfter - 91*time.Second)
	r.c().housekeep(t.Context())
	got, err := r.st.Runner(t.Context(), row.ID)
	if err != nil || got.State != store.RunnerFailed || got.Message == "" {
		t.Errorf("the lost host's runner is %s (%s): %v", got.State, got.Message, err)
	}
	if j := r.jobRow(p.InstallationID, id); j.FleetFault == "" || j.State != store.JobInProgress {
		t.Errorf("its job is %s, fault %q", j.State, j.FleetFault)
	}
	// It comes back: it is heard, is asked to remove what was given up, and after the backoff gets the waiting job.
	r.clock.advance(r.set.Scheduler.StartBackoff)
	h.beat()
	kinds := map[protocol.TaskKind]bool{}
	for range 2 { // each asked for once
		task := h.task()
		kinds[task.Kind] = true
		if err := h.answer(task, true, ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(kinds) != 2 {
		t.Errorf("the host that came back was asked for %v", kinds)
	}
}

// A controller that was killed between marking a host lost and failing its runners fails them afterwards.
func TestLostHostIsSeenThroughAfterACrash(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	create := h.task()
	if err := r.st.MarkHostLost(t.Context(), h.cred.HostID); err != nil {
		t.Fatal(err)
	}
	r.c().housekeep(t.Context())
	if got, err := r.st.Runner(t.Context(), create.RunnerID); err != nil || got.State != store.RunnerFailed {
		t.Errorf("the runner is %s: %v", got.State, err)
	}
}

// The controller's own absence is never held against a host.
func TestDowntimeOfTheControllerIsNotHeldAgainstHosts(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	r.stopController()
	r.clock.advance(time.Hour)
	r.startController()
	r.c().housekeep(t.Context())
	for _, x := range r.runners() {
		if x.State == store.RunnerFailed && x.Message != "" && r.hostRow("host-1").LostAt.IsZero() == false {
			t.Errorf("runner %s: %s", x.ID, x.Message)
		}
	}
	if !r.hostRow("host-1").LostAt.IsZero() {
		t.Error("the host is lost although only the controller was away")
	}
}

// A host that joins again under its name is new: its old runners are gone, and their jobs the fleet's failure.
func TestHostThatJoinsAgainDropsItsRunners(t *testing.T) {
	t.Parallel()
	r, p, h := noAgents(t, nil)
	id := r.job("wait")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": id, "runner_name": row.Name}), "")
	r.runner(store.RunnerBusy)
	again := r.scripted("host-1")
	if again.cred.HostID != h.cred.HostID {
		t.Error("the host has another ID")
	}
	if got, err := r.st.Runner(t.Context(), row.ID); err != nil || got.State.Live() {
		t.Errorf("its old runner is %s: %v", got.State, err)
	}
	if j := r.jobRow(p.InstallationID, id); j.FleetFault == "" {
		t.Error("the job it ran is not the fleet's failure")
	}
	if _, err := r.c().Agents().Heartbeat(t.Context(), h.cred, protocol.Heartbeat{}); err == nil {
		t.Error("the old token is still accepted")
	}
}

// Two hosts: one may not speak for the other's runners, nor answer its tasks.
func TestHostSpeaksOnlyForItsOwn(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	create := h.task()
	other := r.scripted("host-2")
	if err := other.answer(create, true, ""); err == nil {
		t.Error("another host's answer was taken")
	}
	zero := 0
	other.report(report(store.Runner{ID: create.RunnerID}, store.RunnerRemoved, &zero))
	if got, err := r.st.Runner(t.Context(), create.RunnerID); err != nil || got.State != store.RunnerProvisioning {
		t.Errorf("the runner is %s by another host's word: %v", got.State, err)
	}
}

// A host that was deleted comes back under another ID. What it still has of its old runners is disowned, so that it removes it; another
// host's is not, as long as that one is there.
func TestDeletedHostsRunnersAreDisowned(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	create := h.task()
	if err := h.answer(create, true, ""); err != nil {
		t.Fatal(err)
	}
	back := r.scripted("host-2")
	over := func() []string {
		t.Helper()
		resp, err := r.c().Agents().Report(t.Context(), back.cred, []protocol.RunnerReport{{RunnerID: create.RunnerID, Phase: protocol.PhaseRunning, WorkloadID: "wl"}})
		if err != nil {
			t.Fatal(err)
		}
		return resp.Finished
	}
	if got := over(); len(got) != 0 {
		t.Errorf("a live runner of another host was disowned: %q", got)
	}
	if err := r.c().failRunner(t.Context(), create.RunnerID, "a test says so"); err != nil {
		t.Fatal(err)
	}
	if got := over(); len(got) != 0 {
		t.Errorf("an ended runner of a host that is there was disowned: %q", got)
	}
	if err := r.st.DeleteHost(t.Context(), h.cred.HostID); err != nil {
		t.Fatal(err)
	}
	if got := over(); len(got) != 1 || got[0] != create.RunnerID {
		t.Errorf("after its host was deleted %q are over", got)
	}
}

// A27: a cloned machine's heartbeats do not keep its dead original looking healthy. When the original has been silent for long
// enough, whoever is left is the host.
func TestClonesHeartbeatsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	h := r.scripted("host-1")
	clone := h
	clone.cred.Instance = "two"
	beat := func(s scripted) error {
		_, err := r.c().Agents().Heartbeat(t.Context(), s.cred, protocol.Heartbeat{Version: "test", Host: hostInfo()})
		return err
	}
	poll := func(s scripted) error {
		_, err := r.c().Agents().Poll(t.Context(), s.cred, 0)
		return err
	}
	if err := beat(clone); err != nil {
		t.Errorf("before anybody has polled: %v", err)
	}
	if err := poll(h); err != nil {
		t.Fatal(err)
	}
	before := r.hostRow("host-1").LastHeartbeatAt
	r.clock.advance(r.set.Scheduler.HeartbeatTimeout)
	if err := beat(clone); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("the clone's heartbeat was answered with %v", err)
	}
	if at := r.hostRow("host-1").LastHeartbeatAt; !at.Equal(before) {
		t.Errorf("the clone's heartbeat moved the host's from %s to %s", before, at)
	}
	h.beat()
	if at := r.hostRow("host-1").LastHeartbeatAt; !at.After(before) {
		t.Error("the host's own heartbeat was not recorded")
	}
	r.clock.advance(2*protocol.MaxWait + time.Second)
	if err := poll(clone); err != nil {
		t.Fatal(err)
	}
	if err := beat(clone); err != nil {
		t.Errorf("the one that is left: %v", err)
	}
}
