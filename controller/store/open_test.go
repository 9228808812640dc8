package store_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// clock is a time that only the test moves.
type clock struct{ t time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.t }

func (c *clock) step(d time.Duration) time.Time {
	c.t = c.t.Add(d)
	return c.t
}

// raw opens the database file beside the store.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestTheFilesAreForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(storetest.Dir(t), "zoomies.db")
	s := storetest.OpenWith(t, store.Options{Path: path})
	storetest.Seed(t, s)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", suffix, info.Mode().Perm())
		}
	}
}

func TestCommitsAreDurableAndForeignKeysHold(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		got, err := s.WriterPragma(t.Context(), pragma)
		if err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
	if _, err := s.CreatePool(t.Context(), store.Pool{Name: "p", InstallationID: "ins_none"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a pool of no installation: %v, want ErrNotFound", err)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	if err := s.WriteThroughReader(t.Context(), "DELETE FROM settings"); err == nil {
		t.Error("a reader wrote")
	}
}

func TestAnyPathOpens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(storetest.Dir(t), "a b%41?c#d&e=f.db")
	storetest.OpenWith(t, store.Options{Path: path})
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestADatabaseOfANewerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := storetest.Dir(t)
	path := filepath.Join(dir, "zoomies.db")
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: path, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := raw(t, path).Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), store.Options{Path: path, Keys: keys})
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "9999") {
		t.Errorf("got %v, want ErrNewerSchema with the version", err)
	}
}

func TestReopeningKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := storetest.Dir(t)
	o := store.Options{Path: filepath.Join(dir, "zoomies.db")}
	var err error
	if o.Keys, err = secrets.LoadOrCreate(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.Seed(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenWith(t, o)
	in, err := s.Installation(t.Context(), f.Installation.ID)
	if err != nil || string(in.PrivateKey.Reveal()) != "private key" {
		t.Errorf("got %v, %v", in, err)
	}
}

// A key file that does not belong to the database must be found out at the start.
func TestAForeignKeyFileIsRefusedAtOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(storetest.Dir(t), "zoomies.db")
	storetest.Seed(t, storetest.OpenWith(t, store.Options{Path: path}))
	other, err := secrets.LoadOrCreate(filepath.Join(storetest.Dir(t), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: path, Keys: other}); !errors.Is(err, secrets.ErrUnknownKey) {
		t.Errorf("got %v, want ErrUnknownKey", err)
	}
}

func TestAClosedStoreRefusesAndLeavesNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetSetting(t.Context(), "a", "b"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v, want ErrClosed", err)
	}
	if _, err := s.Pools(t.Context()); err == nil {
		t.Error("a read after Close succeeded")
	}
}

// Loops that use the store are tested in bubbles with a clock of their own.
func TestAStoreWorksInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t)
		if err := s.SetSetting(context.Background(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the bubble's hour, not ours
		if got, err := s.Settings(context.Background()); err != nil || got["a"] != "b" {
			t.Error(got, err)
		}
	})
}
