package api

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page's table of permissions is what the manifest asks for and the check looks at, no more and no less.
func TestThePageNamesThePermissionsThatAreNeeded(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/how-to/connect-github.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	rows := 0
	for _, p := range needed(accountOrganization, true, true) {
		row := fmt.Sprintf("| `%s` | %s |", p.name, p.tiers[len(p.tiers)-1].level)
		if !strings.Contains(page, row) {
			t.Errorf("the page has no row %s", row)
		}
		rows++
	}
	_, table, _ := strings.Cut(page, "## What the App may do")
	table, _, _ = strings.Cut(table, "\n## ")
	if n := strings.Count(table, "\n| `"); n != rows {
		t.Errorf("the page has %d permissions, and %d are needed", n, rows)
	}
}

// A browser is sent to that GitHub's own pages and to no other's, whatever the App's page is said to be.
func TestTheInstallPageIsGitHubsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, page, want string }{
		{"", "https://github.com/apps/fleet", "https://github.com/apps/fleet/installations/new"},
		{"", "https://github.com.evil.example/apps/fleet", ""},
		{"", "http://github.com/apps/fleet", ""},
		{"", "javascript:alert(1)", ""},
		{"", "", ""},
		{"https://ghes.example/api/v3", "https://ghes.example/github-apps/fleet", "https://ghes.example/github-apps/fleet/installations/new"},
		{"https://ghes.example/api/v3", "https://github.com/apps/fleet", ""},
		{"https://api.octo.ghe.com", "https://octo.ghe.com/apps/fleet", "https://octo.ghe.com/apps/fleet/installations/new"},
	} {
		if got := installPage(c.base, c.page); got != c.want {
			t.Errorf("installPage(%q, %q) = %q, want %q", c.base, c.page, got, c.want)
		}
	}
}
