package proxmox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestEveryMethodIsAnswered: the table and the handlers are the same list, in every version.
func TestEveryMethodIsAnswered(t *testing.T) {
	t.Parallel()
	for version, a := range loadTable() {
		n := 0
		for _, methods := range a {
			for _, m := range methods {
				n++
				if handlers[m.name] == nil {
					t.Errorf("%s: %s is in the table, and nothing answers it", version, m.name)
				}
				for name, p := range m.params {
					if p.Pattern != "" {
						pattern(p.Pattern) // must compile
					}
					if p.Type == "" && p.Alias == "" {
						t.Errorf("%s: %s of %s has no type", version, name, m.name)
					}
				}
			}
		}
		if n != len(handlers) {
			t.Errorf("%s: %d methods, %d handlers", version, n, len(handlers))
		}
	}
}

// TestTheTableIsProxmoxsOwn: made again from the vendor's descriptions it is the same.
func TestTheTableIsProxmoxsOwn(t *testing.T) {
	t.Parallel()
	old, recent := shared(t, "api-8.4.json"), shared(t, "api-9.1.json")
	if old == "" || recent == "" {
		t.Skip("Proxmox's descriptions of its API are not on this machine (shared/data/pve beside the tree)")
	}
	cmd := exec.CommandContext(context.Background(), "go", "run", "./gen", "8.4="+old, "9.1="+recent)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	made, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, tableText) {
		t.Error("table.json is not what gen makes of the descriptions: run go run ./sim/proxmox/gen again")
	}
}

// TestRoutes: fixed words come before variable ones, and a volume's name may have slashes.
func TestRoutes(t *testing.T) {
	t.Parallel()
	a := loadTable()["9.1"]
	for _, tt := range []struct {
		verb, path, name string
		vars             []string
	}{
		{"GET", "/nodes/a/qemu/100/status/current", "GET /nodes/{node}/qemu/{vmid}/status/current", []string{"a", "100"}},
		{"DELETE", "/nodes/a/storage/s/content/s:iso/x.iso", "DELETE /nodes/{node}/storage/{storage}/content/{volume}", []string{"a", "s", "s:iso/x.iso"}},
		{"GET", "/nodes/a/storage/s/content", "GET /nodes/{node}/storage/{storage}/content", []string{"a", "s"}},
		{"GET", "/nosuch", "", nil},
		{"GET", "/", "", nil},
	} {
		m, vars := a.find(tt.verb, tt.path)
		if m == nil {
			if tt.name != "" {
				t.Errorf("%s %s is not found", tt.verb, tt.path)
			}
			continue
		}
		var got []string
		for _, v := range vars {
			got = append(got, v)
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tt.vars))
		if m.name != tt.name || !slices.Equal(got, want) {
			t.Errorf("%s %s is %s %v", tt.verb, tt.path, m.name, vars)
		}
	}
}

// TestVersions: what a version calls itself, and one that is not simulated.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, r := range releases {
		rig := newRig(t, Options{Version: version})
		if row := rig.do("GET", "/version", "").row(); row["release"] != version || row["version"] != r.full {
			t.Errorf("%s: %v", version, row)
		}
	}
	if _, err := New(Options{Version: "7.4"}); err == nil {
		t.Error("7.4 is simulated")
	}
}
