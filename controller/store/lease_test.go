package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func TestTheLease(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	const ttl = time.Minute
	one := store.Holder{ID: "one", Host: "alpha", PID: 11}
	restarted := store.Holder{ID: "two", Host: "alpha", PID: 12}
	elsewhere := store.Holder{ID: "three", Host: "beta", PID: 13}
	acquire := func(h store.Holder, takeover bool) error { return s.AcquireLease(t.Context(), h, ttl, takeover) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	names := func(err, want error, host, pid string) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), pid) {
			t.Fatalf("got %v, want %v naming %s and %s", err, want, host, pid)
		}
	}
	must(acquire(one, false))
	must(s.RenewLease(t.Context(), "one", ttl))
	names(acquire(elsewhere, false), store.ErrLeaseHeld, "alpha", "11")
	must(acquire(restarted, false)) // the same host, at once
	names(s.RenewLease(t.Context(), "one", ttl), store.ErrLeaseLost, "alpha", "12")
	must(s.ReleaseLease(t.Context(), "one")) // not its own any more: stays
	must(s.RenewLease(t.Context(), "two", ttl))
	c.step(ttl - time.Second)
	names(acquire(elsewhere, false), store.ErrLeaseHeld, "alpha", "12")
	c.step(time.Second)
	must(s.RenewLease(t.Context(), "two", ttl)) // expired, and nobody took it
	names(acquire(elsewhere, false), store.ErrLeaseHeld, "alpha", "12")
	must(acquire(elsewhere, true)) // takeover
	names(s.RenewLease(t.Context(), "two", ttl), store.ErrLeaseLost, "beta", "13")
	c.step(ttl)
	must(acquire(one, false)) // expired
	must(s.ReleaseLease(t.Context(), "one"))
	if err := s.RenewLease(t.Context(), "one", ttl); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("renewed a lease that is not there: %v", err)
	}
	must(acquire(elsewhere, false)) // released

	// Two machines of one image share their name; one machine may change its own.
	must(acquire(store.Holder{ID: "four", Machine: "m1", Host: "zoomies", PID: 14}, true))
	names(acquire(store.Holder{ID: "five", Machine: "m2", Host: "zoomies", PID: 15}, false), store.ErrLeaseHeld, "zoomies", "14")
	names(acquire(store.Holder{ID: "five", Host: "zoomies", PID: 15}, false), store.ErrLeaseHeld, "zoomies", "14")
	must(acquire(store.Holder{ID: "six", Machine: "m1", Host: "renamed", PID: 16}, false))
}

// A second controller of a newer release must be refused before it has migrated the database
// under the first.
func TestADatabaseThatIsHeldIsNotMigrated(t *testing.T) {
	t.Parallel()
	dir := storetest.Dir(t)
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	c := newClock()
	o := store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys, Now: c.now, Holder: store.Holder{ID: "new", Machine: "m2", Host: "beta"}}
	if err := store.CheckLease(t.Context(), o.Path, o.Holder, c.now()); err != nil {
		t.Errorf("there is no database yet: %v", err)
	}
	if err := store.MigrateTo(t.Context(), o.Path, 1); err != nil {
		t.Fatal(err)
	}
	db := raw(t, o.Path)
	version := func() (v int) {
		t.Helper()
		if err := db.QueryRow("SELECT MAX(version_id) FROM goose_db_version").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := db.Exec("INSERT INTO controller_lease (id, holder_id, host, pid, renewed_at, expires_at) VALUES (1, 'old', 'alpha', 11, 0, ?)",
		c.now().Add(time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), o)
	if !errors.Is(err, store.ErrLeaseHeld) || !strings.Contains(err.Error(), "alpha") || !strings.Contains(err.Error(), "11") || version() != 1 {
		t.Fatalf("opened a database that is held: %v, its schema is version %d", err, version())
	}
	if err := store.CheckLease(t.Context(), o.Path, o.Holder, c.now()); !errors.Is(err, store.ErrLeaseHeld) {
		t.Errorf("CheckLease: %v", err)
	}
	if err := store.CheckLease(t.Context(), o.Path, o.Holder, c.now().Add(time.Minute)); err != nil {
		t.Errorf("CheckLease of a lease that has expired: %v", err)
	}
	o.Takeover = true
	s := storetest.OpenWith(t, o)
	if version() < 2 {
		t.Error("a takeover did not migrate")
	}
	if err := s.AcquireLease(t.Context(), o.Holder, time.Minute, true); err != nil {
		t.Error(err)
	}
	o.Holder, o.Takeover = store.Holder{ID: "newer", Machine: "m3", Host: "gamma"}, false
	if _, err := store.Open(t.Context(), o); !errors.Is(err, store.ErrLeaseHeld) || !strings.Contains(err.Error(), "beta") {
		t.Errorf("opened a database of this version that is held: %v", err)
	}
	o.Holder.Machine = "m2"
	storetest.OpenWith(t, o) // the same machine, after a crash
}

func TestTwoStoresOverOneFileSeeOneLease(t *testing.T) {
	t.Parallel()
	dir := storetest.Dir(t)
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys}
	a, b := storetest.OpenWith(t, o), storetest.OpenWith(t, o)
	errs := make(chan error, 2)
	for i, s := range []*store.Store{a, b} {
		go func() {
			errs <- s.AcquireLease(context.Background(), store.Holder{ID: fmt.Sprint(i), Host: fmt.Sprint("host-", i), PID: i}, time.Hour, false)
		}()
	}
	e1, e2 := <-errs, <-errs
	if (e1 == nil) == (e2 == nil) || !errors.Is(errors.Join(e1, e2), store.ErrLeaseHeld) {
		t.Errorf("got %v and %v, want one of them refused", e1, e2)
	}
}

func TestTheFileLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zoomies.db")
	release, err := store.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	_, err = store.LockFile(path)
	if !errors.Is(err, store.ErrLeaseHeld) || !strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want ErrLeaseHeld naming %s and %d", err, host, os.Getpid())
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = store.LockFile(path)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := store.LockFile(filepath.Join(t.TempDir(), "no", "folder", "zoomies.db")); err == nil || errors.Is(err, store.ErrLeaseHeld) {
		t.Errorf("no folder: %v", err)
	}
}

func TestALockFileOfRubbishStillRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zoomies.db")
	release, err := store.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	if err := os.WriteFile(path+".lock", []byte("\x00rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.LockFile(path); !errors.Is(err, store.ErrLeaseHeld) {
		t.Errorf("got %v", err)
	}
}

const childDir = "ZOOMIES_TEST_STORE_CHILD"

// TestMain makes this binary a controller that is to be killed, when it is told to be one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child locks the database, takes the lease, and writes for ever, saying what is written.
func child(dir string) {
	path := filepath.Join(dir, "zoomies.db")
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	_, err := store.LockFile(path)
	fail(err)
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	fail(err)
	s, err := store.Open(context.Background(), store.Options{Path: path, Keys: keys})
	fail(err)
	host, _ := os.Hostname()
	fail(s.AcquireLease(context.Background(), store.Holder{ID: "child", Host: host, PID: os.Getpid()}, time.Hour, false))
	for i := 0; ; i++ {
		fail(s.SetSetting(context.Background(), fmt.Sprint(i), "x"))
		fmt.Println(i)
	}
}

// A controller killed with SIGKILL leaves nothing to clean up and loses nothing it said it had
// written; its successor on the same host takes the lock and the lease at once.
func TestAKilledControllerLosesNothingAndBlocksNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscan(lines.Text(), &written); err != nil {
			t.Fatal(lines.Text())
		}
		if written == 20 {
			break
		}
	}
	path := filepath.Join(dir, "zoomies.db")
	if _, err := store.LockFile(path); !errors.Is(err, store.ErrLeaseHeld) || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("while it lives: %v, want ErrLeaseHeld naming process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		_, _ = fmt.Sscan(lines.Text(), &written)
	}
	_ = cmd.Wait()

	release, err := store.LockFile(path)
	if err != nil {
		t.Fatalf("its lock outlived it: %v", err)
	}
	defer func() { _ = release() }()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.OpenWith(t, store.Options{Path: path, Keys: keys})
	host, _ := os.Hostname()
	if err := s.AcquireLease(t.Context(), store.Holder{ID: "successor", Host: host, PID: 1}, time.Hour, false); err != nil {
		t.Errorf("the successor was refused: %v", err)
	}
	got, err := s.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range written + 1 {
		if got[fmt.Sprint(i)] != "x" {
			t.Errorf("write %d of %d was acknowledged and is lost", i, written+1)
		}
	}
}
