package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The pages in the tree are what the commands say of themselves.
func TestReferenceIsCurrent(t *testing.T) {
	t.Setenv("ZOOMIES_DATA_DIR", t.TempDir())
	for name, want := range referencePages() {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Errorf("cannot read the page: %v; run make docs", err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the commands; run make docs", name)
		}
	}
}

// Every command has a manual page that man can read.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	c := root()
	c.SetArgs([]string{"reference", "man", dir})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"zoomies.1", "zoomies-pools-create.1", "zoomies-controller.1"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(raw, []byte(".SH NAME")) {
			t.Errorf("%s is no manual page: %v", name, err)
		}
	}
}
