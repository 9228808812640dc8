package agent

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

func streamTask(runner, stream string, follow bool, tail int) protocol.Task {
	return protocol.Task{
		ID: "tsk_log_" + stream, Kind: protocol.TaskStreamLogs, RunnerID: runner,
		Logs: &protocol.StreamLogs{Stream: stream, Follow: follow, Tail: tail},
	}
}

func (r *rig) logOf(stream string) string {
	r.ctl.mu.Lock()
	defer r.ctl.mu.Unlock()
	return r.ctl.logs[stream]
}

func (r *rig) openStreams() int {
	r.agent.streams.mu.Lock()
	defer r.agent.streams.mu.Unlock()
	return len(r.agent.streams.open)
}

func TestLogsFollowARunnerToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Print("run_1", "one\ntwo\n")
		r.ctl.offer(streamTask("run_1", "all", true, 0))
		r.ctl.offer(streamTask("run_1", "tail", false, 1))
		synctest.Wait()
		r.wantOK("tsk_log_all")
		if got := r.logOf("tail"); got != "two\n" {
			t.Errorf("the tail is %q", got)
		}
		r.after(time.Hour)
		r.engine.Print("run_1", "three\n")
		r.engine.Exit("run_1", 0)
		synctest.Wait()
		if got := r.logOf("all"); got != "one\ntwo\nthree\n" {
			t.Errorf("the log is %q", got)
		}
		if n := r.openStreams(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
	})
}

func TestAStreamEndsWhenNobodyWatches(t *testing.T) {
	for what, end := range map[string]func(*rig){
		"a cancel": func(r *rig) {
			r.ctl.offer(protocol.Task{ID: "tsk_cancel", Kind: protocol.TaskCancelLogs, Logs: &protocol.StreamLogs{Stream: "s"}})
			synctest.Wait()
			r.wantOK("tsk_cancel")
		},
		"the controller's word": func(r *rig) { close(r.ctl.watching["s"]) },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.ctl.watching["s"] = make(chan struct{})
			r.running("run_1")
			r.ctl.offer(streamTask("run_1", "s", true, 0))
			synctest.Wait()
			if r.openStreams() != 1 {
				t.Fatal("the stream did not open")
			}
			end(r)
			synctest.Wait()
			if r.openStreams() != 0 {
				t.Errorf("the stream outlived %s", what)
			}
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		for i := range MaxLogStreams {
			r.ctl.offer(streamTask("run_1", fmt.Sprint(i), true, 0))
		}
		synctest.Wait()
		r.ctl.offer(streamTask("run_1", "more", true, 0))
		synctest.Wait()
		r.wantFailed("tsk_log_more", "cannot stream")
		r.ctl.offer(streamTask("run_none", "none", true, 0))
	})
}

func TestALogOfNoRunnerIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(streamTask("run_none", "s", true, 0))
		synctest.Wait()
		r.wantFailed("tsk_log_s", "not on the host")
	})
}

func TestSamplesAreMeansAndSurviveAFailure(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.after(SampleInterval / 2)
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.engine.SetStats("run_1", 30*time.Second, 100)
		r.after(SampleInterval / 2)
		want := func(cpus float64, memory int64) {
			t.Helper()
			us := r.agent.usage.all()
			if len(us) != 1 || math.Abs(us[0].CPUs-cpus) > 1e-9 || us[0].MemoryMB != memory {
				t.Errorf("usage %+v, want %g cores and %d MiB", us, cpus, memory)
			}
		}
		want(2, 100) // thirty seconds of CPU in fifteen
		r.engine.SetStats("run_1", 45*time.Second, 200)
		r.after(SampleInterval)
		want(0.5, 200)
		at := r.agent.usage.all()[0].At
		r.engine.Inject(fake.OpStats, fake.Fault{Delay: time.Hour})
		r.after(2*SampleInterval - time.Second)
		if us := r.agent.usage.all(); len(us) != 1 || !us[0].At.Equal(at) {
			t.Errorf("a failed sample replaced the one before: %+v", us)
		}
		r.after(2 * time.Second)
		want(0, 200)
		r.engine.Exit("run_1", 0)
		r.after(2 * SampleInterval)
		if us := r.agent.usage.all(); len(us) != 0 {
			t.Errorf("samples of the dead: %+v", us)
		}
	})
}

func TestSamplingHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		for i := range 30 {
			r.ctl.offer(createTask(fmt.Sprintf("run_%d", i)))
		}
		synctest.Wait()
		r.engine.Inject(fake.OpStats, fake.Fault{Delay: time.Hour, Times: -1})
		r.after(SampleInterval + time.Second)
		r.engine.Exit("run_0", 0)
		r.after(time.Second)
		if got := r.ctl.last("run_0"); got.State != stateRemoved {
			t.Errorf("a hung sample held up the sweep: %+v", got)
		}
		r.after(SamplePass)
		// Twenty seconds of four at a time and five seconds each.
		if n := r.engine.Calls(fake.OpStats); n < 16 || n > 30 {
			t.Errorf("%d samples were asked for in one pass", n)
		}
	})
}

func TestTheHostIsDescribedByItsEngine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.cfg.Labels = map[string]string{"size": "medium"}
		r.start()
		r.after(3 * HeartbeatInterval)
		if n := len(r.ctl.beats); n != 4 {
			t.Errorf("%d heartbeats, want one at once and three more", n)
		}
		hb := r.ctl.beats[0]
		h := hb.Host
		if h.CPUs != 4 || h.MemoryMB != 8192 || h.Capacity != 4 || h.DiskTotalMB != 1000 || h.DiskFreeMB != 500 || h.Labels["size"] != "medium" || h.Distro != "Test" {
			t.Errorf("host %+v", h)
		}
		if len(h.Backends) != 1 || h.Backends[0].Name != "podman" || !h.Backends[0].CPULimit || h.Backends[0].Error != "" {
			t.Errorf("backends %+v", h.Backends)
		}
		if hb.Version != "v1.0.0" || hb.Load1 != 1 || hb.CPUUsed != 0.5 || hb.MemoryAvailableMB != 1024 {
			t.Errorf("heartbeat %+v", hb)
		}
	})
}

// A46: an engine that cannot be used is named, and keeps no heartbeat back.
func TestABrokenEngineIsNamedInTheHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.Inject(fake.OpProbe, fake.Fault{Delay: time.Hour, Times: -1})
		r.start()
		r.after(4 * HeartbeatInterval)
		if n := len(r.ctl.beats); n < 3 {
			t.Errorf("only %d heartbeats while a probe hangs", n)
		}
		h := r.ctl.beats[0].Host
		if h.Backends[0].Error == "" || h.CPUs != 2 || h.Capacity != 2 {
			t.Errorf("host %+v", h)
		}
	})
}

// An engine that answers late on a busy machine is not broken as long as it lists its workloads. One that hangs is, and so is one
// that refuses.
func TestALateProbeIsForgiven(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		said := func() string { return r.ctl.lastBeat().Host.Backends[0].Error }
		r.start()
		if e := said(); e != "" {
			t.Fatalf("healthy, and the heartbeat says %q", e)
		}
		r.engine.Inject(fake.OpProbe, fake.Fault{Delay: time.Hour, Times: -1})
		r.after(3 * (HeartbeatInterval + ProbeTimeout))
		if e := said(); e != "" {
			t.Errorf("an engine that answers late is called broken: %q", e)
		}
		r.engine.Inject(fake.OpList, fake.Fault{Delay: time.Hour, Times: -1})
		r.after(SweepInterval + ListTimeout + HeartbeatInterval + ProbeTimeout)
		if e := said(); e == "" {
			t.Error("an engine that hangs is not named")
		}
		r.engine.Mend(fake.OpProbe)
		r.engine.Mend(fake.OpList)
		r.after(ListTimeout + HeartbeatInterval + ProbeTimeout)
		if e := said(); e != "" {
			t.Errorf("mended, and the heartbeat says %q", e)
		}
		r.engine.Inject(fake.OpProbe, fake.Fault{Err: backend.ErrUnavailable, Times: -1})
		r.after(HeartbeatInterval)
		if e := said(); e == "" {
			t.Error("an engine that refuses is not named at once")
		}
	})
}

func TestTheControllerSetsTheHeartbeatsPace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.agent.setInterval(protocol.SecondsOf(5 * time.Second))
		r.after(HeartbeatInterval)
		before := len(r.ctl.beats)
		r.agent.setInterval(0)  // says nothing
		r.agent.setInterval(-1) // neither
		if got := time.Duration(r.agent.interval.Load()); got != HeartbeatInterval {
			t.Errorf("the pace is %s after %d beats", got, before)
		}
		r.agent.setInterval(1e-6)
		if got := time.Duration(r.agent.interval.Load()); got != time.Second {
			t.Errorf("a pace of %s would hammer the controller", got)
		}
	})
}

func TestAControllerThatDoesNotWaitIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.cfg.Controller = hasty{r.ctl}
		r.start()
		r.after(time.Minute)
		if n := r.ctl.polls; n == 0 || n > 250 {
			t.Errorf("%d polls within a minute", n)
		}
	})
}

// hasty answers every poll at once.
type hasty struct{ *scripted }

func (h hasty) Poll(ctx context.Context, cred protocol.Credential, _ time.Duration) (*protocol.Task, error) {
	return h.scripted.Poll(ctx, cred, 0)
}

func TestTheRegistrationReachesTheRunnerAndNobodyElse(t *testing.T) {
	t.Parallel()
	c := &protocol.CreateRunner{
		Name: "zoomies-1", Image: "i", Env: map[string]string{"A": "b", EnvURL: "https://evil.example"},
		Registration: &protocol.Registration{URL: "https://github.com/o", Token: "tok", Labels: []string{"zoomies", "x64"}, Group: "g"},
	}
	spec, err := specOf(c, "run_1", "hst_1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A": "b", EnvURL: "https://github.com/o", EnvToken: "tok", EnvName: "zoomies-1", EnvLabels: "zoomies,x64", EnvGroup: "g",
	}
	if fmt.Sprint(spec.Env) != fmt.Sprint(want) {
		t.Errorf("env %v, want %v", spec.Env, want)
	}
	if c.Env[EnvToken] != "" {
		t.Error("the task's own map was written to")
	}
}

func TestThePoolMaySetTheDaemonsWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		wait protocol.Seconds
		want string
	}{
		"the fleet's":       {nil, 180, "180"},
		"the pool's":        {map[string]string{EnvDockerWait: "7"}, 180, "7"},
		"none":              {nil, 0, ""},
		"beyond the bounds": {nil, 1e9, "3600"},
		"below the bounds":  {nil, 0.001, "1"},
	} {
		env := envOf(&protocol.CreateRunner{JITConfig: "j", Env: tt.env, Daemon: "docker", DaemonWait: tt.wait})
		if env[EnvDockerWait] != tt.want || env[EnvDaemon] != "docker" {
			t.Errorf("%s: %v", name, env)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 3000)
	if got := clip(long, maxMessage); len(got) > maxMessage || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("clipped to %d bytes", len(got))
	}
	if got := clip("short", maxMessage); got != "short" {
		t.Errorf("got %q", got)
	}
}

// The constants that others' are chosen against.
func TestTheConstantsFitTheSpecification(t *testing.T) {
	t.Parallel()
	const createLease, removeLease = 20 * time.Minute, 5 * time.Minute
	if CreateTimeout+inventoryTime() >= createLease {
		t.Error("a create outlasts its lease")
	}
	if RemoveTimeout >= removeLease {
		t.Error("a removal outlasts its lease")
	}
	if RetryMax > HeartbeatInterval {
		t.Error("a host may be silent for longer than a heartbeat because of backoff alone")
	}
	var _ backend.Backend = fake.New("x", nil)
}
