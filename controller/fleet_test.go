package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

var _ api.Fleet = (*Controller)(nil)

// drain tells a host to empty, as the API does.
func (r *rig) drain(name string) {
	r.t.Helper()
	if err := r.st.SetHostDraining(r.t.Context(), r.hostRow(name).ID, true); err != nil {
		r.t.Fatal(err)
	}
	r.c().Look()
}

// on counts the live runners of a host.
func (r *rig) on(name string) int {
	r.t.Helper()
	live, err := r.st.Runners(r.t.Context(), store.RunnerFilter{HostID: r.hostRow(name).ID, Live: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(live)
}

// A drained host loses its idle runners at once and its busy ones with their jobs; what is wanted is made elsewhere.
func TestADrainedHostIsEmpty(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 2 })
	id := r.job("wait")
	r.waitJob(id, "in_progress", "")
	r.until("both runners of the minimum are there", func() bool { return r.on("host-1") == 2 })
	r.host("host-2", 10)
	r.drain("host-1")
	r.until("only the busy runner is left, and told to go", func() bool {
		live, err := r.st.Runners(t.Context(), store.RunnerFilter{HostID: r.hostRow("host-1").ID, Live: true})
		return err == nil && len(live) == 1 && live[0].State == store.RunnerDraining && live[0].Message == "its host host-1 is being drained"
	})
	r.until("others are made on the other host", func() bool { return r.on("host-2") == 2 })
	r.finishJob(id)
	r.completed(id, "success")
	r.until("the host is empty", func() bool { return r.on("host-1") == 0 && r.hosts[0].engine.Count() == 0 })

	// It takes nothing new, and is deleted with its token.
	next := r.job("ok")
	r.completed(next, "success")
	if n := r.on("host-1"); n != 0 {
		t.Errorf("%d runners on a drained host", n)
	}
	r.hosts[0].stop()
	h := r.hostRow("host-1")
	if err := r.st.DeleteHost(t.Context(), h.ID); err != nil {
		t.Error(err)
	}
}

// The token of a host that was deleted works no more.
func TestADeletedHostIsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	h := r.scripted("host-1")
	h.beat()
	if err := r.st.DeleteHost(t.Context(), h.cred.HostID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.c().Agents().Heartbeat(t.Context(), h.cred, protocol.Heartbeat{Host: hostInfo()}); !errors.Is(err, protocol.ErrUnauthorized) {
		t.Errorf("a heartbeat: %v", err)
	}
	if _, err := r.c().Agents().Poll(t.Context(), h.cred, 0); !errors.Is(err, protocol.ErrUnauthorized) {
		t.Errorf("a poll: %v", err)
	}
}

// A job that does not finish while its host is drained is stopped after five minutes, and that is the fleet's doing.
func TestADrainStopsAJobThatTakesTooLong(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	id := r.job("wait")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": id, "runner_name": row.Name}), "")
	row = r.runner(store.RunnerBusy)
	r.drain("host-1")
	r.runner(store.RunnerDraining)
	r.clock.advance(DrainGrace - time.Minute)
	h.beat()
	r.c().housekeep(t.Context())
	if j, err := r.st.Job(t.Context(), row.JobID); err != nil || j.FleetFault != "" || r.on("host-1") != 1 {
		t.Errorf("before its grace was over: %+v %v", j, err)
	}
	r.clock.advance(time.Minute)
	h.beat()
	r.c().housekeep(t.Context())
	if task := h.task(); task.Kind != protocol.TaskStop || task.RunnerID != row.ID {
		t.Errorf("asked for %+v", task)
	}
	j, err := r.st.Job(t.Context(), row.JobID)
	if err != nil || !strings.Contains(j.FleetFault, "did not finish within 5m0s: its host host-1 is being drained") {
		t.Errorf("the fault: %q %v", j.FleetFault, err)
	}
}

// A paused queue starts nothing, not even the minimum; an idle runner still takes a job. Resumed, everything goes on.
func TestAPausedQueueStartsNothing(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 1 })
	r.idle()
	since := r.clock.now()
	if err := r.st.SetQueuePause(t.Context(), store.QueuePause{Since: since, By: "ada", Reason: "the rack is hot"}); err != nil {
		t.Fatal(err)
	}
	r.c().Look()
	first := r.job("ok")
	r.completed(first, "success")
	second := r.job("ok")
	waiting := r.jobOf(p.InstallationID, second)
	r.settle(1)
	if live := r.live(); len(live) != 0 {
		t.Fatalf("%d runners while the queue is paused: %s", len(live), r.state())
	}
	e, err := r.c().Explain(t.Context(), waiting.ID)
	if err != nil || e.Wait != scheduler.WaitPaused || !strings.Contains(e.Why, "by ada: the rack is hot") || !strings.Contains(e.Change, "Resume the queue") {
		t.Errorf("explained by %+v %v", e, err)
	}
	for _, x := range r.c().Problems() {
		if x.Code == problems.PoolBlocked {
			t.Errorf("what somebody wants is a problem: %+v", x)
		}
	}
	if err := r.st.SetQueuePause(t.Context(), store.QueuePause{}); err != nil {
		t.Fatal(err)
	}
	r.c().Look()
	r.completed(second, "success")

	p.PausedAt, p.PauseReason, p.Min = r.clock.now(), "a new image", 0
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, x := range r.live() {
		if err := r.c().StopRunner(t.Context(), x.ID, "a test stops it"); err != nil && !errors.Is(err, store.ErrTransition) {
			t.Fatal(err)
		}
	}
	r.nothingLeft()
	third := r.job("ok")
	if e, err := r.c().Explain(t.Context(), r.jobOf(p.InstallationID, third).ID); err != nil || e.Wait != scheduler.WaitPaused || !strings.Contains(e.Why, "pool acme is paused") {
		t.Errorf("explained by %+v %v", e, err)
	}
	p.PausedAt = time.Time{}
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.c().Look()
	r.completed(third, "success")
}

// jobOf waits until a job of GitHub is known here.
func (r *rig) jobOf(in string, id int64) (j store.Job) {
	r.t.Helper()
	r.until("the job is known", func() (ok bool) {
		var err error
		j, err = r.st.JobByGitHubID(r.t.Context(), in, id)
		return err == nil
	})
	return j
}

func TestARunnerIsStoppedByAnOperator(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, func(p *store.Pool) { p.Min = 1 })
	idle := r.idle()
	p.Min = 0
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := r.c().StopRunner(t.Context(), idle.ID, "it was stopped by ada"); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft() // at once: the next look of the housekeeping is half a minute away
	if got, err := r.st.Runner(t.Context(), idle.ID); err != nil || got.State != store.RunnerRemoved || got.Message != "it was stopped by ada" {
		t.Errorf("%+v %v", got, err)
	}
	if err := r.c().StopRunner(t.Context(), idle.ID, "again"); !errors.Is(err, store.ErrTransition) {
		t.Errorf("one that has ended: %v", err)
	}

	id := r.job("wait")
	r.waitJob(id, "in_progress", "")
	busy := r.runner(store.RunnerBusy)
	for range 2 {
		if err := r.c().StopRunner(t.Context(), busy.ID, "it was stopped by ada"); err != nil {
			t.Fatal(err)
		}
	}
	r.runner(store.RunnerDraining)
	r.finishJob(id)
	r.completed(id, "success")
	r.nothingLeft()
}

// A runner that takes one job after the other goes when its job is done, and not when its grace is over.
func TestAPersistentRunnerGoesWithItsJob(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, func(p *store.Pool) { p.Ephemeral = false })
	id := r.job("wait")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	news := map[string]any{"id": id, "runner_name": row.Name}
	r.deliver("", payload("acme/widgets", "in_progress", news), "")
	r.runner(store.RunnerBusy)
	if err := r.c().StopRunner(t.Context(), row.ID, "a test stops it"); err != nil {
		t.Fatal(err)
	}
	r.runner(store.RunnerDraining)
	news["conclusion"] = "success"
	r.deliver("", payload("acme/widgets", "completed", news), "")
	r.c().housekeep(t.Context())
	if task := h.task(); task.Kind != protocol.TaskRemove || task.RunnerID != row.ID {
		t.Errorf("asked for %+v", task)
	}
}

func TestPrewarmingAsksEveryHostThatServesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	p := r.pool(r.install("acme", "acme/widgets"), func(p *store.Pool) { p.Daemon, p.DaemonImage = "podman", "localhost/daemon:test" })
	a, b := r.scripted("a"), r.scripted("b")
	if err := r.st.SetHostCordoned(t.Context(), b.cred.HostID, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		images, hosts, err := r.c().Prewarm(t.Context(), p)
		if err != nil || len(images) != 2 || images[1] != "localhost/daemon:test" {
			t.Fatal(images, err)
		}
		if len(hosts) != 2 || !hosts[0].Serves || hosts[1].Serves || hosts[1].Why != "cordoned" {
			t.Errorf("hosts: %+v", hosts)
		}
	}
	kind := string(protocol.TaskPrewarm)
	if ts, err := r.st.OutstandingTasks(t.Context(), a.cred.HostID, kind); err != nil || len(ts) != 2 {
		t.Errorf("%d tasks: %v", len(ts), err)
	}
	if ts, err := r.st.OutstandingTasks(t.Context(), b.cred.HostID, kind); err != nil || len(ts) != 0 {
		t.Errorf("a cordoned host has %d tasks: %v", len(ts), err)
	}
	first := a.task()
	if first.Kind != protocol.TaskPrewarm || first.Prewarm.Image == "" || first.Prewarm.Backend != "podman" {
		t.Errorf("asked for %+v", first)
	}
	if err := a.answer(first, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.c().Prewarm(t.Context(), p); err != nil { // what was answered is asked again: the image may be newer
		t.Fatal(err)
	}
	if ts, err := r.st.OutstandingTasks(t.Context(), a.cred.HostID, kind); err != nil || len(ts) != 2 {
		t.Errorf("%d tasks: %v", len(ts), err)
	}
}

func TestRealHostsFetchWhatTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	r.until("the host has joined", func() bool { return r.hostRow("host-1").ID != "" })
	if _, _, err := r.c().Prewarm(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.until("the image is there", func() bool { return len(r.hosts[0].engine.Prepared()) == 1 })
}

func TestGitHubIsAskedToRerunAndCancel(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil)
	id := r.job("exit 1")
	r.completed(id, "failure")
	failed := r.jobOf(p.InstallationID, id)
	if err := r.c().RerunJob(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	jobs := r.gh.Jobs()
	if len(jobs) != 2 {
		t.Fatalf("%d jobs at GitHub", len(jobs))
	}
	r.completed(jobs[1].ID, "failure")

	long := r.job("wait")
	r.waitJob(long, "in_progress", "")
	running := r.jobOf(p.InstallationID, long)
	err := r.c().RerunJob(t.Context(), running)
	if call, ok := errors.AsType[*github.CallError](err); !ok || !errors.Is(err, github.ErrRefused) || !strings.Contains(call.Reason, "already running") {
		t.Errorf("a running job: %v", err)
	}
	if err := r.c().CancelRun(t.Context(), running); err != nil {
		t.Fatal(err)
	}
	r.completed(long, "cancelled")

	until := r.clock.now().Add(time.Minute)
	if err := r.st.HoldInstallation(t.Context(), p.InstallationID, until, "secondary limit"); err != nil {
		t.Fatal(err)
	}
	n := r.gh.Stats().Requests["POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel"]
	limit, ok := errors.AsType[*github.LimitError](r.c().CancelRun(t.Context(), running))
	if !ok || limit.Reason != "secondary limit" || r.gh.Stats().Requests["POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel"] != n {
		t.Errorf("a held installation: %+v", limit)
	}
}

func TestHowAHostIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	now := r.clock.now()
	for want, h := range map[string]store.Host{
		HostJoining:   {JoinedAt: now, LastHeartbeatAt: now},
		HostHealthy:   {JoinedAt: now.Add(-time.Hour), LastHeartbeatAt: now},
		HostUnhealthy: {JoinedAt: now.Add(-time.Hour), LastHeartbeatAt: now.Add(-2 * time.Minute)},
		HostLost:      {JoinedAt: now.Add(-time.Hour), LastHeartbeatAt: now.Add(-time.Hour), LostAt: now},
	} {
		if got := r.c().HostHealth(h); got != want {
			t.Errorf("%+v is %s, want %s", h, got, want)
		}
	}
}
