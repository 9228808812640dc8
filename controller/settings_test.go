package controller

import (
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// changed is a value that a setting may have and does not have by default; none for a kind that has no such.
func changed(s config.Setting) (string, bool) {
	switch s.Kind {
	case config.Bool:
		return strconv.FormatBool(s.Default != "true"), true
	case config.Int:
		return "7", true
	case config.Duration:
		if least, err := time.ParseDuration(s.Floor); err == nil && least > 77*time.Second {
			return (least + time.Second).String(), true
		}
		return "77s", true
	case config.Map:
		return "A=b", true
	default:
		return "", false
	}
}

// What the registry calls live must be what Apply can change, and nothing else: the reference page promises it.
func TestLiveSettingsAreThoseThatCanBeApplied(t *testing.T) {
	t.Parallel()
	load := func(database map[string]string) Settings {
		t.Helper()
		cfg, err := config.Load(config.LoadOptions{Database: database})
		if err != nil {
			t.Fatal(err)
		}
		return SettingsOf(cfg)
	}
	plain := load(nil)
	for _, s := range config.Registry() {
		v, ok := changed(s)
		if !ok || s.Early {
			if s.Effect == config.Live {
				t.Errorf("%s is live, and this test has no value for its kind", s.Key)
			}
			continue
		}
		if moved := !reflect.DeepEqual(load(map[string]string{s.Key: v}), plain); moved != (s.Effect == config.Live) {
			t.Errorf("%s is declared %s, and changing it changes what can be applied: %t", s.Key, s.Effect, moved)
		}
	}
}

// Every setting is used by the next pass, poll, task or answer after it was applied.
func TestAppliedSettingsCountAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	in := r.install("acme", "acme/widgets")
	p := r.pool(in, func(p *store.Pool) { p.Daemon = "docker" })
	h := r.scripted("host-1")
	r.job("ok")
	env := map[string]string{"A": "b"}
	s := r.set
	s.Tick, s.HeartbeatInterval, s.FinishedRetention = 17*time.Second, 18*time.Second, 19*time.Second
	s.CreateTimeout, s.DaemonWait, s.RunnerEnv, s.PollFallback = 20*time.Second, 21*time.Second, env, true
	s.Scheduler.ProvisionTimeout, s.Scheduler.MaxLifetime, s.Scheduler.TickBudget = 22*time.Second, 23*time.Second, 24
	st := &pollState{}
	r.c().pollInstallation(t.Context(), in, st)
	if js, err := r.st.Jobs(t.Context(), store.JobFilter{}); err != nil || len(js) != 0 {
		t.Fatalf("polled although that is off: %v", err)
	}
	r.c().Apply(s)
	env["A"] = "changed by its owner"

	r.c().pollInstallation(t.Context(), in, st)
	if js, err := r.st.Jobs(t.Context(), store.JobFilter{}); err != nil || len(js) != 1 {
		t.Errorf("not polled although that is on: %v", err)
	}
	if next, err := r.c().pass(t.Context()); err != nil || next != s.Tick {
		t.Errorf("the next pass comes in %s: %v", next, err)
	}
	if snap, err := r.c().snapshot(t.Context()); err != nil || snap.Tunables != s.Scheduler {
		t.Errorf("the decision goes by %+v: %v", snap.Tunables, err)
	}
	task := r.c().createTask(store.Runner{}, p)
	if task.Timeout.Duration() != s.CreateTimeout || task.DaemonWait.Duration() != s.DaemonWait || task.Env["A"] != "b" {
		t.Errorf("a create is %+v", task)
	}
	if resp, err := r.c().Agents().Heartbeat(t.Context(), h.cred, protocol.Heartbeat{Version: "test", Host: hostInfo()}); err != nil || resp.HeartbeatInterval.Duration() != s.HeartbeatInterval {
		t.Errorf("a heartbeat is answered %+v: %v", resp, err)
	}
	if resp, err := r.c().Agents().Report(t.Context(), h.cred, nil); err != nil || resp.FinishedRetention.Duration() != s.FinishedRetention {
		t.Errorf("a report is answered %+v: %v", resp, err)
	}
}

// Settings are changed while everything runs. The loops do not wait for their old timers, and nothing is read while it is written:
// this is a test for the race detector.
func TestSettingsChangeUnderRunningLoops(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, nil) // whose tick is an hour
	p.Min = 1
	if err := r.st.UpdatePool(t.Context(), p); err != nil { // which nobody tells the loops
		t.Fatal(err)
	}
	s := r.set
	s.Tick = time.Minute
	r.c().Apply(s)
	r.idle()
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 50 {
				s := s
				s.RunnerEnv = map[string]string{"N": "n"}
				s.Tick = time.Minute + time.Duration(n*i)*time.Second
				r.c().Apply(s)
				if _, err := r.c().snapshot(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r.completed(r.job("ok"), "success")
	wg.Wait()
}
