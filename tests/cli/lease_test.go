package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// openStore opens the database of a controller's data folder, beside the controller or without one.
func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "zoomies.keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The file lock says nothing of another machine: its controller is known by its lease in the database. Nothing may be touched
// then, the key file least of all.
func TestADatabaseThatAnotherMachineHoldsIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	if err := s.AcquireLease(t.Context(), store.Holder{ID: "ctl_there", Machine: "another", Host: "elsewhere", PID: 4711}, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "zoomies.keys")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"keys", "rotate"}, {"controller"}} {
		_, errs, code := run(t, settings(dir), command...)
		if code == 0 || !strings.Contains(errs, "process 4711 on elsewhere") {
			t.Errorf("%v: exit %d, want a refusal that names the holder:\n%s", command, code, errs)
		}
	}
	if err := os.Rename(file, file+".elsewhere"); err != nil { // this machine never had it
		t.Fatal(err)
	}
	if _, errs, code := run(t, settings(dir), "controller"); code == 0 {
		t.Errorf("it started:\n%s", errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a key file was made for a database that another machine holds")
	}
	if err := os.Rename(file+".elsewhere", file); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key file changed (%v)", err)
	}
	startController(t, settings(dir), "--takeover").stop(t)
	if _, errs, code := run(t, settings(dir), "keys", "rotate"); code != 0 {
		t.Errorf("keys rotate once nobody holds the database: exit %d\n%s", code, errs)
	}
	// The rotation gave up its own lease.
	startController(t, settings(dir)).stop(t)
}

// The controller's own host must come back when its row is deleted, however long after the start, and without a restart.
func TestTheControllersOwnHostJoinsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a heartbeat")
	}
	t.Parallel()
	dir := t.TempDir()
	c := startController(t, append(settings(dir), "ZOOMIES_AGENT_EMBEDDED=true", "ZOOMIES_AGENT_BACKENDS=process", "ZOOMIES_AGENT_HEARTBEAT_INTERVAL=5s"))
	s := openStore(t, dir)
	t.Cleanup(func() { _ = s.Close() })
	joined := func(not string) string {
		t.Helper()
		deadline := time.Now().Add(patience)
		for {
			hosts, err := s.Hosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(hosts) == 1 && hosts[0].ID != not {
				return hosts[0].ID
			}
			select {
			case err := <-c.done:
				t.Fatalf("the controller ended: %v\n%s", err, c.logs())
			case <-time.After(200 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatalf("its host does not join:\n%s", c.logs())
			}
		}
	}
	first := joined("")
	if err := s.DeleteHost(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	joined(first)
	c.stop(t)
	if strings.Contains(c.logs(), "zoojoin_") || strings.Contains(c.logs(), "zooagent_") {
		t.Error("a token is in the log")
	}
}
