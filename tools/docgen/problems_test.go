package main

import (
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/problems"
)

// Each problem has a section of its own, which its link reaches, and the section says what to do.
func TestEveryProblemHasItsSection(t *testing.T) {
	t.Parallel()
	page := problemsPage()
	for _, c := range problems.All() {
		_, rest, found := strings.Cut(page, "\n## `"+c.String()+"`\n")
		section, _, _ := strings.Cut(rest, "\n## ")
		if !found || !strings.Contains(section, c.Kind().Why) || !strings.Contains(section, c.Kind().Fix) {
			t.Errorf("%s has no section that says why and what to do", c)
		}
		if !strings.HasPrefix(c.Link(), "docs/reference/problems.md#") || !strings.Contains(page, "](#"+strings.TrimPrefix(c.Link(), "docs/reference/problems.md#")+")") {
			t.Errorf("%s: the page does not know the link %s", c, c.Link())
		}
	}
}
