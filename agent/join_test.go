package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
)

func TestTheStateFileKeepsNoJoinToken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		info, err := os.Stat(r.cfg.StatePath)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("agent.json: %v, %v", info, err)
		}
		data, err := os.ReadFile(r.cfg.StatePath)
		if err != nil || strings.Contains(string(data), "zoojoin_one") {
			t.Errorf("agent.json holds the join token (%v)", err)
		}
		st, err := LoadState(r.cfg.StatePath)
		if err != nil || st.HostID != "hst_1" || st.AgentToken != "agent-token-1" || st.Controller != "https://zoomies.test" || st.fresh("zoojoin_one") {
			t.Errorf("%+v, %v", st, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.cfg.StatePath), "*new*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestARestartNeedsNoToken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.stop()
		r.cfg.JoinToken, r.cfg.Address, r.cfg.CAPin = "", "https://moved.test", "sha256:00"
		r.start()
		if r.agent.HostID() != "hst_1" || len(r.ctl.offered) != 1 {
			t.Errorf("host %q after offering %d tokens", r.agent.HostID(), len(r.ctl.offered))
		}
		if st, _ := LoadState(r.cfg.StatePath); st.Controller != "https://moved.test" || st.CAPin != "sha256:00" {
			t.Errorf("the new address and pin were not kept: %q, %q", st.Controller, st.CAPin)
		}
	})
}

func TestJoiningWaitsForAController(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.ctl.setDown(true)
		r.start()
		r.after(10 * time.Minute)
		if r.agent.HostID() != "" {
			t.Error("joined a controller that is down")
		}
		r.ctl.setDown(false)
		r.after(RetryMax)
		if r.agent.HostID() != "hst_1" {
			t.Error("did not join within the longest wait")
		}
	})
}

func TestAnAgentThatCannotJoinSaysWhatToDo(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no token":      func(c *Config) { c.JoinToken = "" },
		"unknown token": func(c *Config) { c.JoinToken = "zoojoin_other" },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			change(&r.cfg)
			a, err := New(r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err = a.Run(t.Context()); !errors.Is(err, ErrCannotJoin) || !strings.Contains(err.Error(), newTokenAdvice) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// The token is good once, so it must not be spent when its yield cannot be kept.
func TestNoTokenIsSpentInVain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		file := filepath.Join(filepath.Dir(r.cfg.StatePath), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.cfg.StatePath = filepath.Join(file, "agent.json")
		a, err := New(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); err == nil || len(r.ctl.offered) != 0 {
			t.Errorf("Run: %v after offering %v", err, r.ctl.offered)
		}
	})
}

// A host that the controller has deleted must neither offer its spent token again nor hammer
// the controller, and its jobs go on.
func TestADeletedHostGoesQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.ctl.set(func() { r.ctl.token = "" })
		r.after(time.Second)
		r.ctl.set(func() { r.ctl.refusals = 0 })
		r.after(time.Hour)
		if n := r.ctl.refusals; n == 0 || n > 12 {
			t.Errorf("asked %d times within an hour", n)
		}
		r.stop()
		r.start() // the environment still holds the token
		r.after(time.Hour)
		if !slices.Equal(r.ctl.offered, []string{"zoojoin_one"}) {
			t.Errorf("offered %v", r.ctl.offered)
		}
		r.wantCount(1)
		if !strings.Contains(r.log.String(), newTokenAdvice) {
			t.Error("the log does not say what to do")
		}
		// A controller restored from a backup knows the host again.
		r.ctl.set(func() { r.ctl.token = "agent-token-1" })
		r.after(2 * RefusedMax)
		r.ctl.offer(createTask("run_2"))
		synctest.Wait()
		r.wantOK("tsk_create_run_2")
	})
}

func TestAFreshTokenJoinsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.stop()
		r.ctl.set(func() { r.ctl.token, r.ctl.tokens["zoojoin_two"] = "", true })
		r.cfg.JoinToken = "zoojoin_two"
		r.start()
		r.after(time.Second)
		if !slices.Equal(r.ctl.offered, []string{"zoojoin_one", "zoojoin_two"}) {
			t.Errorf("offered %v", r.ctl.offered)
		}
		st, _ := LoadState(r.cfg.StatePath)
		if st.AgentToken != "agent-token-2" || st.fresh("zoojoin_one") || st.fresh("zoojoin_two") {
			t.Errorf("state: %v", st.Spent)
		}
		if w, _, ok := r.engine.Runner("run_1"); !ok || w.Phase != "running" {
			t.Error("joining again disturbed a runner")
		}
		r.ctl.offer(createTask("run_2"))
		synctest.Wait()
		r.wantOK("tsk_create_run_2")
	})
}

func TestAnotherHostIDEndsTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.stop()
		r.cfg.JoinToken = "zoojoin_two"
		r.ctl.set(func() { r.ctl.token, r.ctl.hostID, r.ctl.tokens["zoojoin_two"] = "", "hst_2", true })
		a, err := New(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); !errors.Is(err, ErrHostChanged) {
			t.Errorf("Run: %v", err)
		}
		r.wantCount(1)
		r.start()
		if r.agent.HostID() != "hst_2" {
			t.Errorf("host %s", r.agent.HostID())
		}
	})
}

// An answer that is lost must not burn the host: the join is asked again with what it was begun
// with, by the same run of the agent and by the next one.
func TestALostJoinAnswerIsAskedForAgain(t *testing.T) {
	for name, restart := range map[string]bool{"the same run": false, "the next run": true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.ctl.choosy, r.ctl.loseJoins = true, 1
			r.start()
			if restart {
				r.stop()
				if st, err := LoadState(r.cfg.StatePath); err != nil || st.HostID != "" || st.Joining == nil {
					t.Fatalf("%s: the join that was begun is not kept: %v, %v", name, st.Joining != nil, err)
				}
				if info, err := os.Stat(r.cfg.StatePath); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: agent.json: %v, %v", name, info, err)
				}
				r.start()
			}
			r.after(RetryMax)
			if r.agent.HostID() != "hst_1" || len(r.ctl.offered) != 2 || r.ctl.issued != 1 {
				t.Fatalf("%s: host %q after offering %d tokens, %d joins done", name, r.agent.HostID(), len(r.ctl.offered), r.ctl.issued)
			}
			r.ctl.offer(createTask("run_1"))
			synctest.Wait()
			r.wantOK("tsk_create_run_1") // so the token that the agent chose is the one it uses
			if st, _ := LoadState(r.cfg.StatePath); st.Joining != nil || st.fresh("zoojoin_one") {
				t.Errorf("%s: the state still holds the join that is over", name)
			}
		})
	}
}

// The controller's own host has a source of join tokens, and so comes back after its row has gone,
// however long after the start. Without need it asks for none.
func TestASourceOfJoinTokensIsAskedWhenOneIsNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		asked := 0
		r.cfg.JoinToken = ""
		r.cfg.NewJoinToken = func(context.Context) (string, error) {
			asked++
			token := fmt.Sprintf("zoojoin_%d", asked)
			r.ctl.set(func() { r.ctl.tokens[token] = asked != 1 }) // the first has expired before it is used
			return token, nil
		}
		r.ctl.choosy, r.ctl.loseJoins = true, 1
		r.start()
		r.after(RetryMax)
		if r.agent.HostID() != "hst_1" || asked != 2 {
			t.Fatalf("host %q after %d tokens", r.agent.HostID(), asked)
		}
		r.stop()
		r.start()
		if asked != 2 {
			t.Error("a restart asked for a token that it did not need")
		}
		r.after(time.Hour)
		r.ctl.set(func() { r.ctl.token = "" })
		r.after(time.Minute)
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.wantOK("tsk_create_run_1")
		if asked != 3 {
			t.Errorf("asked for %d tokens", asked)
		}
	})
}

// A controller that takes the host in under another ID must not end the process, and one that does
// so for ever must not be hammered.
func TestServeGoesOnAsTheOtherHost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		joins := 0
		r.cfg.NewJoinToken = func(context.Context) (string, error) {
			joins++
			token := fmt.Sprintf("zoojoin_n%d", joins)
			r.ctl.set(func() { r.ctl.tokens[token], r.ctl.hostID = true, fmt.Sprintf("hst_%d", joins+1) })
			return token, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, r.cfg) }()
		r.after(time.Second)
		r.ctl.set(func() { r.ctl.token = "" })
		r.after(2 * time.Minute)
		r.ctl.offer(createTask("run_1"))
		r.after(time.Second)
		r.wantOK("tsk_create_run_1")
		if st, _ := LoadState(r.cfg.StatePath); st.HostID != "hst_2" || joins != 1 {
			t.Errorf("host %s after %d joins", st.HostID, joins)
		}
		for range 3600 {
			r.ctl.set(func() { r.ctl.token = "" })
			r.after(time.Second)
		}
		if joins < 10 || joins > 300 {
			t.Errorf("joined %d times within an hour", joins)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestADamagedStateIsNotQuoted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.json")
	if err := os.WriteFile(path, []byte(`{"host_id":"hst_1","agent_token":"hunter2`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadState(path)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), path) {
		t.Errorf("LoadState: %v", err)
	}
}

func TestSpentTokensAreBounded(t *testing.T) {
	t.Parallel()
	var st State
	for i := range maxSpent + 5 {
		st.spend(strings.Repeat("x", i+1))
	}
	if len(st.Spent) != maxSpent || st.fresh(strings.Repeat("x", maxSpent+5)) {
		t.Errorf("%d hashes are kept", len(st.Spent))
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"host_id":"h","agent_token":"t","spent_join_tokens":["a"]}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "agent.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := LoadState(path)
		if err != nil {
			return
		}
		if err := st.save(path); err != nil {
			t.Fatal(err)
		}
		if again, err := LoadState(path); err != nil || again.credential() != st.credential() {
			t.Errorf("%v came back as %v (%v)", st, again, err)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
	good := Config{Controller: newScripted(), Backends: []backend.Backend{fake.New("podman", nil)}, StatePath: "agent.json", Name: "a"}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Config){
		"two backends of one name": func(c *Config) { c.Backends = append(c.Backends, c.Backends[0]) },
		"no backend":               func(c *Config) { c.Backends = nil },
		"no name":                  func(c *Config) { c.Name = "" },
		"no state file":            func(c *Config) { c.StatePath = "" },
		"less than no capacity":    func(c *Config) { c.Capacity = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("accepted: %s", what)
		}
	}
}
