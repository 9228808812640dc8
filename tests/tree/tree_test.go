// Package tree tests the tree itself: who imports whom, what every package and page must
// have, and that the commands the docs show exist. Each checker is also shown a small bad tree
// that it must object to. It must never build or run the product.
package tree

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is a tree of files under a folder, the repository's or a planted one.
type source struct {
	root  string
	files []string // slash-separated, sorted, without what git ignores
}

// ignored are the folders that are built or fetched, as .gitignore has them.
var ignored = []string{".git", "bin", "out", "node_modules"}

func read(t *testing.T, root string) source {
	t.Helper()
	s := source{root: root}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(ignored, d.Name()) && path != root {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil // a work tree's .git is a file
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			s.files = append(s.files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("cannot read the tree: %v", err)
	}
	slices.Sort(s.files)
	return s
}

// repository is the tree that this test lies in.
func repository(t *testing.T) source {
	t.Helper()
	s := read(t, filepath.Join("..", ".."))
	if !slices.Contains(s.files, "go.mod") || len(s.files) < 20 {
		t.Fatalf("this does not look like the repository: %d files", len(s.files))
	}
	return s
}

// plant makes a tree of the given files.
func plant(t *testing.T, files map[string]string) source {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return read(t, root)
}

// text returns a file's content.
func (s source) text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ending returns the files whose names end so.
func (s source) ending(suffix string) []string {
	var out []string
	for _, f := range s.files {
		if strings.HasSuffix(f, suffix) {
			out = append(out, f)
		}
	}
	return out
}

// report fails the test with each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// wantOne fails unless there is exactly one problem and it holds every word.
func wantOne(t *testing.T, problems []string, words ...string) {
	t.Helper()
	if len(problems) != 1 {
		t.Fatalf("problems are %q, want exactly one", problems)
	}
	for _, w := range words {
		if !strings.Contains(problems[0], w) {
			t.Errorf("the problem is %q, want %q in it", problems[0], w)
		}
	}
}
