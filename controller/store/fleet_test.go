package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestInstallations(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	created, err := s.CreateInstallation(t.Context(), store.Installation{
		Name: "b", BaseURL: "https://ghe/api/v3", AppID: 1, InstallationID: 2, Account: "acme", AccountType: "Organization",
		PrivateKey: secrets.Of("key"), WebhookSecret: secrets.Of("hook"),
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func() store.Installation {
		t.Helper()
		in, err := s.Installation(t.Context(), created.ID)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if diff := cmp.Diff(created, read()); diff != "" {
		t.Errorf("(-created +read):\n%s", diff)
	}
	// A11 in another dress: two rows for one installation would count every job twice.
	twin := created
	twin.ID, twin.Name = "", "c"
	if _, err := s.CreateInstallation(t.Context(), twin); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same installation again: %v", err)
	}
	twin.Name, twin.InstallationID = "b", 3
	if _, err := s.CreateInstallation(t.Context(), twin); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same name again: %v", err)
	}
	changed := created
	changed.Name, changed.PrivateKey, changed.WebhookSecret = "a", secrets.Of("new key"), secrets.Value{}
	now := c.step(time.Minute)
	if err := s.UpdateInstallation(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	changed.WebhookSecret, changed.UpdatedAt = secrets.Of("hook"), now
	if diff := cmp.Diff(changed, read()); diff != "" {
		t.Errorf("an empty secret keeps the stored one (-want +got):\n%s", diff)
	}

	long, short := now.Add(time.Hour), now.Add(time.Minute)
	for _, hold := range []struct {
		until  time.Time
		reason string
	}{{long, "secondary limit"}, {short, "too short to matter"}} {
		if err := s.HoldInstallation(t.Context(), created.ID, hold.until, hold.reason); err != nil {
			t.Fatal(err)
		}
	}
	if in := read(); !in.HoldUntil.Equal(long) || in.HoldReason != "secondary limit" {
		t.Errorf("a hold was shortened to %v, %q", in.HoldUntil, in.HoldReason)
	}
	if err := s.UpdateInstallation(t.Context(), changed); err != nil || read().HoldUntil.IsZero() {
		t.Errorf("an edit lifted the hold (%v)", err)
	}
	for name, err := range map[string]error{
		"read":   func() error { _, err := s.Installation(t.Context(), "ins_none"); return err }(),
		"update": s.UpdateInstallation(t.Context(), store.Installation{ID: "ins_none"}),
		"hold":   s.HoldInstallation(t.Context(), "ins_none", long, ""),
		"delete": s.DeleteInstallation(t.Context(), "ins_none"),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s one that is not there: %v", name, err)
		}
	}
}

func TestWhatIsInUseCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	r := at(t, s, f, store.RunnerIdle)
	enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: r.ID, Kind: kindStop})
	if _, err := s.UpsertJob(t.Context(), store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"installation": s.DeleteInstallation(t.Context(), f.Installation.ID),
		"pool":         s.DeletePool(t.Context(), f.Pool.ID),
		"host":         s.DeleteHost(t.Context(), f.Host.ID),
		"runner":       s.DeleteRunners(t.Context(), []string{r.ID}),
	} {
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s with a live runner: %v", name, err)
		}
	}
	if _, _, err := s.TransitionRunner(t.Context(), r.ID, store.RunnerFailed, store.Change{Message: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePool(t.Context(), f.Pool.ID); err != nil {
		t.Error(err)
	}
	cleanup := func() int {
		t.Helper()
		list, err := s.Runners(t.Context(), store.RunnerFilter{NeedsCleanup: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if cleanup() != 1 {
		t.Error("the failed runner needs no cleanup")
	}
	if err := s.DeleteHost(t.Context(), f.Host.ID); err != nil {
		t.Error(err)
	}
	if err := s.DeleteInstallation(t.Context(), f.Installation.ID); err != nil {
		t.Error(err)
	}
	if cleanup() != 0 {
		t.Error("a runner waits for a host and an installation that are gone")
	}
	if jobs, err := s.Jobs(t.Context(), store.JobFilter{}); err != nil || len(jobs) != 0 {
		t.Errorf("jobs of the deleted installation: %v, %v", jobs, err)
	}
	if tasks, err := s.Tasks(t.Context(), r.ID); err != nil || len(tasks) != 0 {
		t.Errorf("tasks of the deleted host: %v, %v", tasks, err)
	}
	if err := s.DeleteRunners(t.Context(), []string{r.ID, "run_none"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Runner(t.Context(), r.ID); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestPools(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	p, err := s.CreatePool(t.Context(), store.Pool{
		Name: "big", InstallationID: f.Installation.ID, Repository: "acme/site", RunnerGroupID: 3, Labels: []string{"a", "B"},
		Backend: "podman", Image: "i", PullPolicy: "always", OS: "linux", Arch: "arm64", HostSelector: map[string]string{"k": "v"},
		Min: 1, Max: 5, Priority: 9, Enabled: true, Ephemeral: true, IdleTimeout: 5 * time.Minute, ScaleUpDelay: 1500 * time.Millisecond,
		MaxLifetime: time.Hour, RepoLimit: 2, CPUs: 1.25, MemoryMB: 2048, PidsLimit: 100, Network: "none", ReadOnly: true,
		Daemon: "docker", DaemonImage: "d", Env: map[string]string{"A": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.PoolByName(t.Context(), "big")
	if err != nil || !cmp.Equal(got, p) {
		t.Errorf("%v\n%s", err, cmp.Diff(p, got))
	}
	changed := p
	changed.Max, changed.Enabled, changed.Env, changed.CreatedAt = 0, false, nil, time.Time{}
	now := c.step(time.Second)
	if err := s.UpdatePool(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	changed.CreatedAt, changed.UpdatedAt = p.CreatedAt, now
	if got, err = s.Pool(t.Context(), p.ID); err != nil || !cmp.Equal(got, changed) {
		t.Errorf("%v\n%s", err, cmp.Diff(changed, got))
	}
	changed.Name = f.Pool.Name
	if err := s.UpdatePool(t.Context(), changed); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a name that is taken: %v", err)
	}
	if list, err := s.Pools(t.Context()); err != nil || len(list) != 2 || list[0].Name != "big" {
		t.Error(list, err)
	}
	if err := s.UpdatePool(t.Context(), store.Pool{ID: "pool_none"}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if err := s.DeletePool(t.Context(), "pool_none"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

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
	join := func(hash, name string) error {
		_, _, err := s.JoinHost(t.Context(), hash, name, "agent", store.HostUpdate{})
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
	if _, err := s.CreateJoinToken(t.Context(), store.JoinToken{Hash: "again", ExpiresAt: c.now().Add(time.Hour)}); err != nil {
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
		{"below the floor", 100_000, 256, 0},
		{"above the floor", 100_000, 257, 257},
		{"another disk", 200_000, 300, 300},
	} {
		if got := beat(store.HostUpdate{DiskTotalMB: test.total, DiskFreeMB: test.free}); got.DiskFreeMB != test.want {
			t.Errorf("%s: free is %d, want %d", test.name, got.DiskFreeMB, test.want)
		}
	}
	if _, err := s.Heartbeat(t.Context(), "hst_none", full); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestCreateRunnersIsAllOrNone(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	mk := func(name, pool, host string) store.Runner {
		return store.Runner{Name: name, PoolID: pool, HostID: host}
	}
	for name, test := range map[string]struct {
		second store.Runner
		want   error
	}{
		"a name twice": {mk("a", f.Pool.ID, f.Host.ID), store.ErrConflict},
		"no pool":      {mk("b", "pool_none", f.Host.ID), store.ErrNotFound},
		"no host":      {mk("b", f.Pool.ID, "hst_none"), store.ErrNotFound},
	} {
		err := s.CreateRunners(t.Context(), []store.Runner{mk("a", f.Pool.ID, f.Host.ID), test.second})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if list, err := s.Runners(t.Context(), store.RunnerFilter{}); err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestRunnersAreFiltered(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	other := storetest.Fleet{Installation: f.Installation, Pool: f.Pool, Host: storetest.Join(t, s, "host-2")}
	byName := make(map[string]string)
	add := func(name string, f storetest.Fleet, state store.RunnerState) {
		c.step(time.Second)
		byName[at(t, s, f, state).ID] = name
	}
	add("idle", f, store.RunnerIdle)
	add("busy elsewhere", other, store.RunnerBusy)
	add("failed", f, store.RunnerFailed)
	middle := c.step(time.Second)
	add("removed", f, store.RunnerRemoved)
	for id, name := range byName {
		if name == "removed" {
			for _, set := range []error{s.SetRunnerDeregistered(t.Context(), id), s.SetRunnerCleaned(t.Context(), id), s.SetRunnerGitHubID(t.Context(), id, 7), s.SetRunnerMessage(t.Context(), id, "bye")} {
				if set != nil {
					t.Fatal(set)
				}
			}
			if r, err := s.Runner(t.Context(), id); err != nil || !r.Deregistered || !r.Cleaned || r.GitHubID != 7 || r.Message != "bye" {
				t.Error(r, err)
			}
			if r, err := s.RunnerByName(t.Context(), func() string { r, _ := s.Runner(t.Context(), id); return r.Name }()); err != nil || r.ID != id {
				t.Error(r, err)
			}
		}
	}
	for name, test := range map[string]struct {
		f    store.RunnerFilter
		want []string
	}{
		"all":             {store.RunnerFilter{}, []string{"idle", "busy elsewhere", "failed", "removed"}},
		"live":            {store.RunnerFilter{Live: true}, []string{"idle", "busy elsewhere"}},
		"live on a host":  {store.RunnerFilter{Live: true, HostID: f.Host.ID}, []string{"idle"}},
		"states":          {store.RunnerFilter{States: []store.RunnerState{store.RunnerBusy, store.RunnerFailed}}, []string{"busy elsewhere", "failed"}},
		"pool":            {store.RunnerFilter{PoolID: f.Pool.ID, Limit: 1}, []string{"idle"}},
		"installation":    {store.RunnerFilter{InstallationID: "ins_other"}, nil},
		"needs cleanup":   {store.RunnerFilter{NeedsCleanup: true}, []string{"failed"}},
		"finished before": {store.RunnerFilter{FinishedBefore: middle}, []string{"failed"}},
	} {
		list, err := s.Runners(t.Context(), test.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			got = append(got, byName[r.ID])
		}
		if !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	if err := s.SetRunnerCleaned(t.Context(), "run_none"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, kv := range [][2]string{{"a", "1"}, {"b", "2"}, {"a", "3"}} {
		if err := s.SetSetting(t.Context(), kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.DeleteSetting(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Settings(t.Context()); err != nil || !cmp.Equal(got, map[string]string{"a": "3"}) {
		t.Error(got, err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is over and old goes; what is not over, not old, or still referred to stays.
func TestPrune(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	var deliveries int
	batch := func() (done, open store.Job, removed, uncleaned, live store.Runner) {
		for range 600 { // more than one transaction's worth
			deliveries++
			if _, _, err := s.IngestDelivery(t.Context(), store.Delivery{ID: store.NewID("guid-")}, nil); err != nil {
				t.Fatal(err)
			}
		}
		job := func(state store.JobState) store.Job {
			deliveries++
			_, ch, err := s.IngestDelivery(t.Context(), store.Delivery{ID: store.NewID("guid-")},
				&store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: int64(deliveries), State: state})
			if err != nil {
				t.Fatal(err)
			}
			return ch.Job
		}
		done, open = job(store.JobCompleted), job(store.JobQueued)
		removed, uncleaned, live = at(t, s, f, store.RunnerRemoved), at(t, s, f, store.RunnerRemoved), newRunner(t, s, f)
		if err := errors.Join(s.SetRunnerDeregistered(t.Context(), removed.ID), s.SetRunnerCleaned(t.Context(), removed.ID)); err != nil {
			t.Fatal(err)
		}
		create, err := s.EnqueueCreate(t.Context(), live.ID, 1, store.Task{})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range []store.Task{create, enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: removed.ID, Kind: kindStop})} {
			if got := lease(t, s, f.Host.ID); got.ID == "" {
				t.Fatal("nothing leased")
			}
			_ = task
		}
		for _, id := range []string{live.ID, removed.ID} {
			tasks, err := s.Tasks(t.Context(), id)
			if err != nil || len(tasks) != 1 {
				t.Fatal(tasks, err)
			}
			if _, _, err := s.FinishTask(t.Context(), f.Host.ID, tasks[0].ID, 1, true, ""); err != nil {
				t.Fatal(err)
			}
		}
		return done, open, removed, uncleaned, live
	}
	done, open, removed, uncleaned, live := batch()
	c.step(time.Hour)
	cut := c.now()
	c.step(time.Hour)
	newDone, _, newRemoved, _, _ := batch()

	// Of the first batch: 602 deliveries, one job, one runner, one task.
	if n, err := s.Prune(t.Context(), cut); err != nil || n != 605 {
		t.Errorf("pruned %d, %v, want 605", n, err)
	}
	if n, err := s.Prune(t.Context(), cut); err != nil || n != 0 {
		t.Errorf("pruned %d more, %v", n, err)
	}
	for id, want := range map[string]bool{done.ID: false, open.ID: true, newDone.ID: true} {
		if _, err := s.Job(t.Context(), id); (err == nil) != want {
			t.Errorf("job %s there: %v, want %v", id, err == nil, want)
		}
	}
	for id, want := range map[string]bool{removed.ID: false, uncleaned.ID: true, live.ID: true, newRemoved.ID: true} {
		if _, err := s.Runner(t.Context(), id); (err == nil) != want {
			t.Errorf("runner %s there: %v, want %v", id, err == nil, want)
		}
	}
	if list, err := s.RunnersWithoutCreate(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a minted runner lost its create task and would be minted again: %v, %v", list, err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 1000 {
		id := store.NewID("run_")
		if len(id) != 20 || seen[id] || id[:4] != "run_" {
			t.Fatalf("ID %q", id)
		}
		for _, c := range id[4:] {
			if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
				t.Fatalf("ID %q", id)
			}
		}
		seen[id] = true
	}
}
