// Command docgen writes the reference pages that come from tables in the code. A test fails
// when a page differs from what it would write. It must never write a page by hand-kept text
// that a table could give.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// page is one generated page. A new table in the code is a new row here.
type page struct {
	path   string // below the root of the tree
	render func() string
}

var pages = []page{
	{"docs/reference/settings.md", settingsPage},
	{"docs/reference/metrics.md", metricsPage},
	{"docs/reference/rights.md", rightsPage},
	{"docs/reference/problems.md", problemsPage},
}

func main() {
	root := flag.String("root", ".", "root of the tree")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	for _, p := range pages {
		path := filepath.Join(root, p.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot make the page's folder: %w", err)
		}
		if err := os.WriteFile(path, []byte(p.render()), 0o644); err != nil {
			return fmt.Errorf("cannot write the page: %w", err)
		}
	}
	return nil
}

// notice heads every generated page.
const notice = "<!-- Written by `make docs` from a table in the code. Change the table, not this page. -->\n\n"
