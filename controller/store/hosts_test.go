package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestAJoinTokenAdmitsOneHostOnce(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	token := func(hash, host string) {
		t.Helper()
		if _, err := s.CreateJoinToken(t.Context(), store.JoinToken{Hash: hash, HostName: host, ExpiresAt: c.now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	agents := 0
	join := func(hash, name string) error {
		_, _, err := s.JoinHost(t.Context(), hash, name, fmt.Sprint("agent-", agents), store.HostUpdate{})
		return err
	}
	token("any", "")
	token("bound", "alpha")
	token("late", "")
	for _, test := range []struct {
		hash, name string
		want       error
	}{
		{"unknown", "x", store.ErrTokenSpent},
		{"bound", "beta", store.ErrTokenSpent},
		{"bound", "alpha", nil}, // the refusal did not spend it
		{"bound", "alpha", store.ErrTokenSpent},
		{"any", "beta", nil},
		{"any", "gamma", store.ErrTokenSpent},
	} {
		agents++ // each is another agent
		if err := join(test.hash, test.name); !errors.Is(err, test.want) {
			t.Errorf("%s as %s: %v, want %v", test.hash, test.name, err, test.want)
		}
	}
	c.step(time.Hour)
	if err := join("late", "delta"); !errors.Is(err, store.ErrTokenSpent) {
		t.Errorf("an expired token: %v", err)
	}
	if hosts, err := s.Hosts(t.Context()); err != nil || len(hosts) != 2 {
		t.Error(hosts, err)
	}
	for _, bad := range []store.JoinToken{{Hash: "x"}, {ExpiresAt: c.now().Add(time.Hour)}, {Hash: "x", ExpiresAt: c.now()}} {
		if _, err := s.CreateJoinToken(t.Context(), bad); err == nil {
			t.Errorf("made %+v", bad)
		}
	}
	// One token, many at once: one gets in.
	token("race", "")
	errs := make(chan error)
	for i := range 8 {
		go func() { errs <- join("race", string(rune('a'+i))) }()
	}
	in := 0
	for range 8 {
		if err := <-errs; err == nil {
			in++
		} else if !errors.Is(err, store.ErrTokenSpent) {
			t.Error(err)
		}
	}
	if in != 1 {
		t.Errorf("one token let %d hosts in", in)
	}
}

func TestAHostThatJoinsAgainKeepsItsIDAndLosesItsRunners(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	busy, gone := at(t, s, f, store.RunnerBusy), at(t, s, f, store.RunnerRemoved)
	elsewhere := storetest.Fleet{Installation: f.Installation, Pool: f.Pool, Host: storetest.Join(t, s, "host-2")}
	other := at(t, s, elsewhere, store.RunnerBusy)
	task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: busy.ID, Kind: kindStop})
	if err := s.SetHostCordoned(t.Context(), f.Host.ID, true); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkHostLost(t.Context(), f.Host.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateJoinToken(t.Context(), store.JoinToken{Hash: "again", HostName: f.Host.Name, ExpiresAt: c.now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	now := c.step(time.Minute)
	h, failed, err := s.JoinHost(t.Context(), "again", f.Host.Name, "new-agent", store.HostUpdate{CPUs: 16})
	if err != nil || h.ID != f.Host.ID || !h.Cordoned || !h.LostAt.IsZero() || h.CPUs != 16 || h.MemoryMB != f.Host.MemoryMB || !h.JoinedAt.Equal(now) {
		t.Fatalf("%+v, %v", h, err)
	}
	if len(failed) != 1 || failed[0].ID != busy.ID || failed[0].State != store.RunnerFailed || failed[0].Message == "" {
		t.Errorf("failed %+v", failed)
	}
	for id, want := range map[string]store.RunnerState{busy.ID: store.RunnerFailed, gone.ID: store.RunnerRemoved, other.ID: store.RunnerBusy} {
		if r, err := s.Runner(t.Context(), id); err != nil || r.State != want {
			t.Errorf("%s is %s, want %s (%v)", id, r.State, want, err)
		}
	}
	if got, err := s.Task(t.Context(), task.ID); err != nil || got.State != store.TaskFailed {
		t.Errorf("its task: %+v, %v", got, err)
	}
	if _, err := s.HostByToken(t.Context(), h.ID, "new-agent"); err != nil {
		t.Error(err)
	}
	for _, hash := range []string{storetest.HashOfAgentToken, ""} {
		if got, err := s.HostByToken(t.Context(), h.ID, hash); !errors.Is(err, store.ErrNotFound) || got.ID != "" {
			t.Errorf("token %q: %v", hash, err)
		}
	}
	if _, err := s.HostByToken(t.Context(), "hst_none", "new-agent"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// A remote machine that happens to have the controller's name must not take its runners down.
func TestTheControllersOwnHostKeepsItsName(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, jt := range []store.JoinToken{{Hash: "own", Embedded: true}, {Hash: "remote"}, {Hash: "own2", Embedded: true}} {
		jt.HostName = "alpha"
		jt.ExpiresAt = time.Now().Add(time.Hour)
		if _, err := s.CreateJoinToken(t.Context(), jt); err != nil {
			t.Fatal(err)
		}
	}
	h, _, err := s.JoinHost(t.Context(), "own", "alpha", "a", store.HostUpdate{})
	if err != nil || !h.Embedded {
		t.Fatal(h, err)
	}
	if _, _, err := s.JoinHost(t.Context(), "remote", "alpha", "b", store.HostUpdate{}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("taken over: %v", err)
	}
	if again, _, err := s.JoinHost(t.Context(), "own2", "alpha", "c", store.HostUpdate{}); err != nil || again.ID != h.ID {
		t.Errorf("its own return: %v", err)
	}
}

// A join whose answer was lost is asked again: the same agent gets the same host, nobody else gets anything.
func TestAJoinCanBeRepeatedByWhoeverMadeIt(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	for _, hash := range []string{"one", "two"} {
		if _, err := s.CreateJoinToken(t.Context(), store.JoinToken{Hash: hash, HostName: f.Host.Name, ExpiresAt: c.now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	join := func(hash, name, agent string) (store.Host, []store.Runner, error) {
		return s.JoinHost(t.Context(), hash, name, agent, store.HostUpdate{})
	}
	if _, _, err := join("one", f.Host.Name, "agent-a"); err != nil {
		t.Fatal(err)
	}
	r := at(t, s, f, store.RunnerIdle) // as it is when the answer was not lost after all
	c.step(time.Hour - time.Second)
	if h, failed, err := join("one", f.Host.Name, "agent-a"); err != nil || h.ID != f.Host.ID || len(failed) != 0 {
		t.Errorf("the repeat: %+v, %v, %v", h, failed, err)
	}
	if got, err := s.Runner(t.Context(), r.ID); err != nil || got.State != store.RunnerIdle {
		t.Errorf("the repeat moved a runner to %s (%v)", got.State, err)
	}
	for name, err := range map[string]error{
		"another agent":           func() error { _, _, err := join("one", f.Host.Name, "agent-b"); return err }(),
		"another name":            func() error { _, _, err := join("one", "host-9", "agent-a"); return err }(),
		"a token not spent by it": func() error { _, _, err := join("three", f.Host.Name, "agent-a"); return err }(),
		"when it has been renewed": func() error {
			if _, _, err := join("two", f.Host.Name, "agent-c"); err != nil {
				return err
			}
			_, _, err := join("one", f.Host.Name, "agent-a")
			return err
		}(),
		"when the token has expired": func() error {
			c.step(time.Second)
			_, _, err := join("two", f.Host.Name, "agent-c")
			return err
		}(),
	} {
		if !errors.Is(err, store.ErrTokenSpent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A token for any host must not replace the agent of a host that is there, and fail its runners.
func TestANameThatIsTakenNeedsATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	r := at(t, s, f, store.RunnerBusy)
	for hash, host := range map[string]string{"any": "", "bound": f.Host.Name} {
		if _, err := s.CreateJoinToken(t.Context(), store.JoinToken{Hash: hash, HostName: host, ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := s.JoinHost(t.Context(), "any", f.Host.Name, "thief", store.HostUpdate{})
	if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "another name") {
		t.Errorf("taken over: %v", err)
	}
	if got, err := s.Runner(t.Context(), r.ID); err != nil || got.State != store.RunnerBusy {
		t.Errorf("its runner is %s (%v)", got.State, err)
	}
	if _, err := s.HostByToken(t.Context(), f.Host.ID, storetest.HashOfAgentToken); err != nil {
		t.Errorf("its agent is not known any more: %v", err)
	}
	if _, _, err := s.JoinHost(t.Context(), "any", "host-2", "agent", store.HostUpdate{}); err != nil {
		t.Errorf("the refusal spent the token: %v", err)
	}
	if h, failed, err := s.JoinHost(t.Context(), "bound", f.Host.Name, "agent", store.HostUpdate{}); err != nil || h.ID != f.Host.ID || len(failed) != 1 {
		t.Errorf("with a token of its own: %+v, %v, %v", h, failed, err)
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	h := storetest.Join(t, s, "host-1")
	beat := func(u store.HostUpdate) store.Host {
		t.Helper()
		got, err := s.Heartbeat(t.Context(), h.ID, u)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := s.Host(t.Context(), h.ID)
		if err != nil || !cmp.Equal(got, stored) {
			t.Fatal(err, cmp.Diff(got, stored))
		}
		return got
	}
	if err := s.MarkHostLost(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	lost := c.now()
	c.step(time.Minute)
	if err := s.MarkHostLost(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Host(t.Context(), h.ID); err != nil || !got.LostAt.Equal(lost) {
		t.Errorf("lost at %v, want %v (%v)", got.LostAt, lost, err)
	}
	got := beat(store.HostUpdate{})
	want := h
	want.LastHeartbeatAt = c.now()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an empty heartbeat says that it lives, no more (-want +got):\n%s", diff)
	}
	full := store.HostUpdate{
		AgentVersion: "v2", OS: "linux", Arch: "arm64", Distro: "debian", CPUs: 2, MemoryMB: 100, DiskTotalMB: 100_000, DiskFreeMB: 50_000,
		Capacity: 3, Labels: map[string]string{"rack": "1"}, Backends: []store.HostBackend{{Name: "docker", Error: "no socket"}},
	}
	got = beat(full)
	if got.AgentVersion != "v2" || got.Capacity != 3 || got.Labels["rack"] != "1" || got.Backends[0].Error != "no socket" || got.DiskFreeMB != 50_000 {
		t.Errorf("%+v", got)
	}
	for _, test := range []struct {
		name              string
		total, free, want int64
	}{
		{"a twentieth is noise", 100_000, 47_500, 50_000},
		{"more than a twentieth", 100_000, 47_499, 47_499},
		{"a drift the other way", 100_000, 49_000, 47_499},
		{"an agent that cannot measure", 0, 0, 47_499},
		{"a full disk is a measurement", 100_000, 0, 0},
		{"of a nearly full disk each percent counts", 100_000, 256, 256},
		{"below the floor", 100_000, 512, 256},
		{"above the floor", 100_000, 513, 513},
		{"another disk", 400, 300, 300},
		{"below the floor, and there is room", 400, 100, 300},
		{"a small disk is nearly full", 400, 70, 70},
		{"and fuller", 400, 15, 15},
		{"and has room again", 400, 200, 200},
	} {
		if got := beat(store.HostUpdate{DiskTotalMB: test.total, DiskFreeMB: test.free}); got.DiskFreeMB != test.want {
			t.Errorf("%s: free is %d, want %d", test.name, got.DiskFreeMB, test.want)
		}
	}
	if _, err := s.Heartbeat(t.Context(), "hst_none", full); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
