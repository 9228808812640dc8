package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// rekeyed is a store with sealed values under an old key, reopened with a rotated keyring.
type rekeyed struct {
	store    *store.Store
	path     string
	keyPath  string
	payloads map[string]string
	install  string
	provider string
}

func newRekeyed(t *testing.T, tasks int) rekeyed {
	t.Helper()
	dir := storetest.Dir(t)
	r := rekeyed{path: filepath.Join(dir, "zoomies.db"), keyPath: filepath.Join(dir, "keys"), payloads: make(map[string]string)}
	keys, err := secrets.LoadOrCreate(r.keyPath)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: r.path, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.Seed(t, s)
	r.install = f.Installation.ID
	p, err := s.CreateProvider(t.Context(), store.Provider{Name: "lab", Kind: "fake", Secret: secrets.Of("provider secret")})
	if err != nil {
		t.Fatal(err)
	}
	r.provider = p.ID
	for i := range tasks {
		task := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: fmt.Sprint("run_", i), Kind: kindStop, Payload: []byte(fmt.Sprint("payload ", i))})
		r.payloads[task.ID] = string(task.Payload)
	}
	enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_empty", Kind: kindStop})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if keys, err = secrets.Rotate(r.keyPath); err != nil {
		t.Fatal(err)
	}
	r.store = storetest.OpenWith(t, store.Options{Path: r.path, Keys: keys})
	return r
}

// check reads every secret.
func (r rekeyed) check(t *testing.T, s *store.Store) {
	t.Helper()
	in, err := s.Installation(t.Context(), r.install)
	if err != nil || string(in.PrivateKey.Reveal()) != "private key" || string(in.WebhookSecret.Reveal()) != "webhook secret" {
		t.Errorf("installation: %v", err)
	}
	if p, err := s.Provider(t.Context(), r.provider); err != nil || string(p.Secret.Reveal()) != "provider secret" {
		t.Errorf("provider: %v", err)
	}
	for id, want := range r.payloads {
		if got, err := s.Task(t.Context(), id); err != nil || string(got.Payload) != want {
			t.Errorf("task %s has %q, want %q (%v)", id, got.Payload, want, err)
		}
	}
}

// Seven payloads, two secrets of an installation and one of a provider in batches of two are seven batches: each is a point to stop at.
func TestRekeyCanBeInterruptedAfterEveryBatch(t *testing.T) {
	t.Parallel()
	const tasks, values, batches = 7, 10, 7
	stop := errors.New("power cut")
	for at := 1; at <= batches; at++ {
		t.Run(fmt.Sprint("batch ", at), func(t *testing.T) {
			t.Parallel()
			r := newRekeyed(t, tasks)
			r.store.SetRekey(2, func(batch int) error {
				if batch == at {
					return stop
				}
				return nil
			})
			first, err := r.store.Rekey(t.Context())
			if !errors.Is(err, stop) || first == 0 {
				t.Fatalf("got %d, %v", first, err)
			}
			r.check(t, r.store) // half-way, everything opens

			r.store.SetRekey(2, nil)
			second, err := r.store.Rekey(t.Context())
			if err != nil || first+second != values {
				t.Fatalf("%d and then %d values, want %d together (%v)", first, second, values, err)
			}
			if again, err := r.store.Rekey(t.Context()); err != nil || again != 0 {
				t.Errorf("a third run rewrote %d values (%v)", again, err)
			}
			if err := r.store.Close(); err != nil {
				t.Fatal(err)
			}
			keys, err := secrets.Retire(r.keyPath)
			if err != nil {
				t.Fatal(err)
			}
			s := storetest.OpenWith(t, store.Options{Path: r.path, Keys: keys})
			r.check(t, s) // without the old key
		})
	}
}

func TestRetiringBeforeRekeyIsFoundOutAtOpen(t *testing.T) {
	t.Parallel()
	r := newRekeyed(t, 1)
	keys, err := secrets.Retire(r.keyPath)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: r.path, Keys: keys}); !errors.Is(err, secrets.ErrUnknownKey) {
		t.Errorf("got %v, want ErrUnknownKey", err)
	}
}

// A ciphertext copied to another row or column must not open there.
func TestACiphertextBelongsToItsRowAndColumn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(storetest.Dir(t), "zoomies.db")
	s := storetest.OpenWith(t, store.Options{Path: path})
	f := storetest.Seed(t, s)
	a := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_a", Kind: kindStop, Payload: []byte("a")})
	b := enqueue(t, s, store.Task{HostID: f.Host.ID, RunnerID: "run_b", Kind: kindStop, Payload: []byte("b")})
	db := raw(t, path)
	if _, err := db.Exec("UPDATE tasks SET payload = (SELECT payload FROM tasks WHERE id = ?) WHERE id = ?", a.ID, b.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Task(t.Context(), b.ID); !errors.Is(err, secrets.ErrSealed) || len(got.Payload) != 0 {
		t.Errorf("another row's payload opened as %q (%v)", got.Payload, err)
	}
	if _, err := s.Task(t.Context(), a.ID); err != nil {
		t.Errorf("the row it belongs to: %v", err)
	}
	if _, err := db.Exec("UPDATE installations SET webhook_secret = private_key"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Installation(t.Context(), f.Installation.ID); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("another column's secret opened (%v)", err)
	}
}
