package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// Each case makes a database and says whether a key file may be made for it.
func TestAKeyFileIsMadeOnlyForADatabaseThatMayBeOpened(t *testing.T) {
	t.Parallel()
	other := store.Holder{ID: "other", Machine: "m1", Host: "alpha", PID: 11}
	seeded := func(t *testing.T, path string, seal bool) {
		t.Helper()
		dir := storetest.Dir(t)
		keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Options{Path: path, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		if seal {
			storetest.Seed(t, s)
		}
		if err := s.AcquireLease(t.Context(), other, time.Hour, false); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		database func(*testing.T, string)
		machine  string
		takeover bool
		held     bool
		made     bool
	}{
		"no database yet":                        {nil, "m2", false, false, true},
		"an empty one, ours":                     {func(t *testing.T, p string) { t.Helper(); seeded(t, p, false) }, "m1", false, false, true},
		"an empty one of an early schema":        {func(t *testing.T, p string) { t.Helper(); must(t, store.MigrateTo(t.Context(), p, 1)) }, "m1", false, false, true},
		"another machine's":                      {func(t *testing.T, p string) { t.Helper(); seeded(t, p, false) }, "m2", false, true, false},
		"another machine's, with a takeover":     {func(t *testing.T, p string) { t.Helper(); seeded(t, p, false) }, "m2", true, false, true},
		"one with secrets":                       {func(t *testing.T, p string) { t.Helper(); seeded(t, p, true) }, "m1", false, false, false},
		"one with secrets, even with a takeover": {func(t *testing.T, p string) { t.Helper(); seeded(t, p, true) }, "m2", true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Dir(t)
			path, file := filepath.Join(dir, "zoomies.db"), filepath.Join(dir, "keys")
			if c.database != nil {
				c.database(t, path)
			}
			keys, err := store.OpenKeys(t.Context(), path, file, store.Holder{ID: "ours", Machine: c.machine, Host: "beta"}, c.takeover)
			if errors.Is(err, store.ErrLeaseHeld) != c.held || (keys != nil) != c.made || (err == nil) != c.made {
				t.Errorf("got keys: %t, error: %v", keys != nil, err)
			}
			if _, err := os.Stat(file); (err == nil) != c.made {
				t.Errorf("the key file: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
