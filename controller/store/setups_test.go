package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func newSetup(t *testing.T, s *store.Store, now time.Time, name, hash string) store.ProviderSetup {
	t.Helper()
	p, err := s.CreateProviderSetup(t.Context(), store.ProviderSetup{Name: name, Hash: hash, ExpiresAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A capability completes its setup once. Its repeat changes nothing, and everything else is told the same.
func TestASetupIsCompletedOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := storetest.OpenWith(t, store.Options{Now: func() time.Time { return now }})
	p := newSetup(t, s, now, "home", "h1")
	newSetup(t, s, now, "work", "h2")
	if _, err := s.CreateProviderSetup(t.Context(), store.ProviderSetup{Name: "home", Hash: "h3", ExpiresAt: now.Add(time.Hour)}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same name: %v", err)
	}
	if _, err := s.ProviderSetupConnection(t.Context(), p.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the connection of an open setup: %v", err)
	}
	complete := func(hash, endpoint, text string) (bool, error) {
		_, again, err := s.CompleteProviderSetup(t.Context(), hash, endpoint, secrets.Of(text))
		return again, err
	}
	if again, err := complete("h1", "https://pve1:8006", "the token"); err != nil || again {
		t.Fatal(again, err)
	}
	if again, err := complete("h1", "https://pve1:8006", "the token"); err != nil || !again {
		t.Errorf("the repeat: %v, %v", again, err)
	}
	got, err := s.ProviderSetup(t.Context(), p.ID)
	if err != nil || got.Endpoint != "https://pve1:8006" || !got.CompletedAt.Equal(now) {
		t.Errorf("%+v, %v", got, err)
	}
	if c, err := s.ProviderSetupConnection(t.Context(), p.ID); err != nil || string(c.Reveal()) != "the token" {
		t.Errorf("the connection: %q, %v", c.Reveal(), err)
	}
	now = now.Add(time.Hour)
	for hash, text := range map[string]string{"h1": "another token", "unknown": "x", "h2": "too late"} {
		if _, err := complete(hash, "https://pve1:8006", text); !errors.Is(err, store.ErrTokenSpent) {
			t.Errorf("%s: %v", hash, err)
		}
		if _, err := s.ProviderSetupByHash(t.Context(), hash); !errors.Is(err, store.ErrTokenSpent) {
			t.Errorf("%s: %v", hash, err)
		}
	}
	if _, err := complete("h1", "https://pve1:8006", "the token"); !errors.Is(err, store.ErrTokenSpent) {
		t.Errorf("the repeat after its end: %v", err)
	}
	if n, err := s.Prune(t.Context(), now.Add(time.Second)); err != nil || n != 2 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if list, err := s.ProviderSetups(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after pruning: %v, %v", list, err)
	}
}

// What was posted is sealed, and is sealed anew when the keys are rotated.
func TestAConnectionIsSealed(t *testing.T) {
	t.Parallel()
	dir := storetest.Dir(t)
	path, keyPath := filepath.Join(dir, "zoomies.db"), filepath.Join(dir, "keys")
	keys, err := secrets.LoadOrCreate(keyPath)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: path, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	p := newSetup(t, s, time.Now(), "home", "h1")
	if _, _, err := s.CompleteProviderSetup(t.Context(), "h1", "https://pve1:8006", secrets.Of("the token")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var sealed string
	if err := raw(t, path).QueryRow("SELECT connection FROM provider_setups").Scan(&sealed); err != nil || strings.Contains(sealed, "token") || sealed == "" {
		t.Errorf("stored as %q, %v", sealed, err)
	}
	if keys, err = secrets.Rotate(keyPath); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(t.Context(), store.Options{Path: path, Keys: keys}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Rekey(t.Context()); err != nil || n != 1 {
		t.Errorf("rekeyed %d, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if keys, err = secrets.Retire(keyPath); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenWith(t, store.Options{Path: path, Keys: keys})
	if c, err := s.ProviderSetupConnection(t.Context(), p.ID); err != nil || string(c.Reveal()) != "the token" {
		t.Errorf("%q, %v", c.Reveal(), err)
	}
}
