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
	got, err := s.Pool(t.Context(), p.ID)
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
