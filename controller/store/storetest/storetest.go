// Package storetest opens real stores for the tests of other packages. It must never be imported
// by a program.
package storetest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Open opens a fresh store that the test's end closes and deletes.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenWith(t, store.Options{})
}

// OpenWith is Open with a clock, a logger, a keyring or a path of the test's own. What o leaves
// out is chosen here.
func OpenWith(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	dir := Dir(t)
	if o.Path == "" {
		o.Path = filepath.Join(dir, "zoomies.db")
	}
	if o.Keys == nil {
		keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
		if err != nil {
			t.Fatal(err)
		}
		o.Keys = keys
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Dir makes a folder that the test's end deletes, in memory where the machine has room there:
// every commit waits for the disk, and tests make many.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "zoomies-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Fleet is an installation, a pool and a host to hang runners, jobs and tasks on.
type Fleet struct {
	Installation store.Installation
	Pool         store.Pool
	Host         store.Host
}

// farFuture is later than any clock of a test.
var farFuture = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// HashOfAgentToken is the hash of the token that the host of Seed joined with.
const HashOfAgentToken = "agent-token-hash"

// Seed writes a small fleet.
func Seed(t testing.TB, s *store.Store) Fleet {
	t.Helper()
	ctx := context.Background()
	var f Fleet
	var err error
	f.Installation, err = s.CreateInstallation(ctx, store.Installation{
		Name: "acme", AppID: 7, InstallationID: 70, Account: "acme", AccountType: "Organization",
		PrivateKey: secrets.Of("private key"), WebhookSecret: secrets.Of("webhook secret"),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Pool, err = s.CreatePool(ctx, store.Pool{
		Name: "zoomies-linux-x64", InstallationID: f.Installation.ID, Labels: []string{"zoomies"},
		Backend: "podman", Image: "localhost/runner:test", Max: 10, Enabled: true, Ephemeral: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Host = Join(t, s, "host-1")
	return f
}

// Join makes a host of that name, with room for ten runners on podman.
func Join(t testing.TB, s *store.Store, name string) store.Host {
	t.Helper()
	ctx := context.Background()
	hash := store.NewID("test-join-")
	if _, err := s.CreateJoinToken(ctx, store.JoinToken{Hash: hash, ExpiresAt: farFuture}); err != nil {
		t.Fatal(err)
	}
	h, _, err := s.JoinHost(ctx, hash, name, HashOfAgentToken, store.HostUpdate{
		OS: "linux", Arch: "amd64", CPUs: 8, MemoryMB: 16384, Capacity: 10,
		Backends: []store.HostBackend{{Name: "podman", Version: "5.4.2", CPULimit: true, MemoryLimit: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
