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
