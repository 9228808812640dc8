package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The pages in the tree are what the tables in the code say.
func TestPagesAreCurrent(t *testing.T) {
	t.Parallel()
	for _, p := range pages {
		got, err := os.ReadFile(filepath.Join("..", "..", p.path))
		if err != nil {
			t.Errorf("cannot read the page: %v; run make docs", err)
			continue
		}
		if string(got) != p.render() {
			t.Errorf("%s differs from its table; run make docs", p.path)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := write(root); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if got, err := os.ReadFile(filepath.Join(root, p.path)); err != nil || string(got) != p.render() {
			t.Errorf("%s was not written: %v", p.path, err)
		}
	}
	if err := write(filepath.Join(root, pages[0].path)); err == nil {
		t.Error("a file was taken for a folder")
	}
}
