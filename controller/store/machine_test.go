package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Two machines of one image share their host name, and nothing else that counts.
func TestAMachineIsKnownByItsIDAndNotByItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	holder := func(machineID, database string) store.Holder {
		t.Helper()
		h, err := store.ThisProcessOn(machineID, filepath.Join(dir, database))
		if err != nil {
			t.Fatal(err)
		}
		if h.ID == "" || h.Machine == "" || h.PID != os.Getpid() {
			t.Errorf("%+v", h)
		}
		return h
	}
	one, two := file("one", "0123456789abcdef0123456789abcdef\n"), file("two", "0123456789abcdef0123456789abcdee\n")
	a := holder(one, "db")
	// HMAC-SHA256 of the application's ID under the machine's, as systemd-id128(1) prints it.
	if want := "0e72c38f8311460ba70f43de307467f4"; a.Machine != want {
		t.Errorf("the machine is %s, want %s", a.Machine, want)
	}
	if again := holder(one, "other"); again.Machine != a.Machine || again.ID == a.ID {
		t.Errorf("the same machine again: %+v after %+v", again, a)
	}
	if holder(two, "db").Machine == a.Machine {
		t.Error("another machine has the same name for it")
	}
	if _, err := os.Stat(filepath.Join(dir, "db.machine")); err == nil {
		t.Error("a value was made although the machine has an ID")
	}
	for name, id := range map[string]string{"none": filepath.Join(dir, "none"), "not set yet": file("early", "uninitialized\n"), "empty": file("empty", "")} {
		got := holder(id, "db")
		if got.Machine == a.Machine || holder(id, "db").Machine != got.Machine || holder(id, "elsewhere").Machine == got.Machine {
			t.Errorf("%s: not the data folder's own name", name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "db.machine")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("db.machine: %v, %v", info, err)
	}
	file("db.machine", "rubbish")
	if _, err := store.ThisProcessOn(filepath.Join(dir, "none"), filepath.Join(dir, "db")); err == nil {
		t.Error("a damaged value was taken")
	}
}
