package catalogue

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the Containerfiles anew")

func load(t *testing.T) Catalogue {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContainerfilesAreTheCatalogues(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, s := range c.Systems {
		want, err := c.Containerfile(s)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", s.ID, "Containerfile")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the catalogue says: run go test ./images/catalogue -update", path)
		}
	}
	found, err := filepath.Glob("../*/Containerfile")
	if err != nil || len(found) != len(c.Systems) {
		t.Errorf("there are %d Containerfiles for %d systems (%v)", len(found), len(c.Systems), err)
	}
}

func TestRunnerIsPinnedByHash(t *testing.T) {
	t.Parallel()
	r := load(t).Runner
	names := map[string]string{AMD64: "x64", ARM64: "arm64"}
	if len(r.Archives) != len(names) {
		t.Fatalf("archives %v", r.Archives)
	}
	for arch, name := range names {
		a := r.Archives[arch]
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(a.SHA256) {
			t.Errorf("%s: SHA-256 %q", arch, a.SHA256)
		}
		if want := "actions-runner-linux-" + name + "-" + r.Version + ".tar.gz"; a.File != want {
			t.Errorf("%s: file %s, want %s", arch, a.File, want)
		}
	}
	if r.Archives[AMD64].SHA256 == r.Archives[ARM64].SHA256 {
		t.Error("both architectures have one hash")
	}
}

func TestNoRegistryIsNamed(t *testing.T) {
	t.Parallel()
	for _, s := range load(t).Systems {
		if host, _, ok := strings.Cut(s.Base, "/"); ok && strings.Contains(host, ".") {
			t.Errorf("%s starts from a registry by name: %s", s.ID, s.Base)
		}
	}
}

// Field report A25: a fleet of pinned images stopped overnight when GitHub's 30 days were over.
func TestPinnedRunnerWarnsTenDaysBeforeGitHubMayRefuseIt(t *testing.T) {
	t.Parallel()
	r := Release{Released: Date(time.Date(2026, 10, 6, 0, 0, 0, 0, time.UTC))}
	for _, tc := range []struct {
		now  string
		days int
		want Verdict
	}{
		{"2026-10-01T00:00:00Z", 0, Current}, // a clock that is behind
		{"2026-10-06T12:00:00Z", 0, Current},
		{"2026-10-25T23:59:59Z", 19, Current},
		{"2026-10-26T00:00:00Z", 20, Aging},
		{"2026-10-26T02:00:00+02:00", 20, Aging},
		{"2026-11-04T23:59:59Z", 29, Aging},
		{"2026-11-05T00:00:00Z", 30, Overdue},
		{"2027-10-06T00:00:00Z", 365, Overdue},
	} {
		now, err := time.Parse(time.RFC3339, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		if days, verdict := r.Age(now); days != tc.days || verdict != tc.want {
			t.Errorf("%s: %d days, %s; want %d, %s", tc.now, days, verdict, tc.days, tc.want)
		}
	}
	if OverdueDays-AgingDays < 10 {
		t.Error("the warning leaves less than ten days")
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, tc := range []struct {
		platform string
		client   Client
		want     string
	}{
		{"", NoClient, "localhost/zoomies/runner:debian-13"},
		{"debian-12", Docker, "localhost/zoomies/runner:debian-12-docker"},
		{"ubuntu-24.04", Podman, "localhost/zoomies/runner:ubuntu-24.04-podman"},
		{"windows", NoClient, ""},
		{"debian-13", "kaniko", ""},
	} {
		got, err := c.Resolve(tc.platform, tc.client)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s with %q: %s, %v", tc.platform, tc.client, got, err)
		}
	}
}

func TestOnlyKnownReferencesChangeVariant(t *testing.T) {
	t.Parallel()
	c := load(t)
	base := c.Repository + ":debian-12"
	version := "-" + c.Runner.Version
	for ref, want := range map[string]string{
		base:                        base + "-docker",
		base + "-docker":            base + "-docker",
		base + "-podman":            base + "-docker",
		base + version:              base + "-docker" + version,
		base + "-podman" + version:  base + "-docker" + version,
		base + "-1.0.0":             "", // another build's pin
		base + "@sha256:0123":       "",
		c.Repository + ":centos-9":  "",
		"example.com/own:debian-12": "",
	} {
		got, err := c.WithClient(ref, Docker)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
}

func TestEveryImageHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	c := load(t)
	seen := map[string]bool{}
	for _, i := range c.Images() {
		if seen[i.Reference] || seen[i.Pinned] {
			t.Errorf("%s or %s is used twice", i.Reference, i.Pinned)
		}
		seen[i.Reference], seen[i.Pinned] = true, true
		if i.Client != NoClient && len(i.System.Clients[i.Client]) == 0 {
			t.Errorf("%s has no client package", i.Reference)
		}
	}
	if len(seen) != 2*3*len(c.Systems) {
		t.Errorf("%d names", len(seen))
	}
}
