package privileges

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryReleaseHasItsPrivileges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"8.3", "8.4.1", "9.0~beta1", "9.0.3", "9.2"} {
		v, err := ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		for s, n := range map[Scope]int{OnPool: 11, OnStorage: 3, OnBridge: 1} {
			if got := On(s, v); len(got) != n || !slices.IsSorted(got) {
				t.Errorf("%s needs on the %s: %v", text, s, got)
			}
		}
	}
}

func TestReleasesThatTheTableDoesNotCover(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"8.2.7": "8.3 or later", "7.4": "8.3 or later", "10.0": "upgrade Zoomies", "": "no version", "pve": "no version", "9": "no version", "9.x": "no version"} {
		if _, err := ParseVersion(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A row counts from one release and until another.
func TestRowsHaveBounds(t *testing.T) {
	t.Parallel()
	rows := []Need{{Privilege: "Old", On: OnPool, Before: Version{9, 0}}, {Privilege: "New", On: OnPool, Since: Version{9, 0}}, {Privilege: "Other", On: OnBridge}}
	for v, want := range map[Version]string{{8, 4}: "Old", {9, 0}: "New", {9, 1}: "New"} {
		if got := on(rows, OnPool, v); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", v, got)
		}
	}
}

func TestNoPrivilegeTwiceAndNoneThatIsTooMuch(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, n := range Needs {
		if seen[n.Privilege] || n.For == "" {
			t.Errorf("%s is there twice, or nobody says what for", n.Privilege)
		}
		seen[n.Privilege] = true
		if strings.HasPrefix(n.Privilege, "Sys.") || strings.HasPrefix(n.Privilege, "Permissions.") || n.Privilege == "Datastore.Allocate" || n.Privilege == "VM.Config.Cloudinit" {
			t.Errorf("%s reaches further than machines of ours", n.Privilege)
		}
	}
}
