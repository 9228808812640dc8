package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The files in the tree are what the API's handlers say.
func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	s := server()
	for _, o := range outputs {
		want, err := o.render(s)
		if err != nil {
			t.Errorf("%s: %v", o.path, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join("..", "..", o.path))
		if err != nil {
			t.Errorf("cannot read the file: %v; run make docs", err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the API's handlers say; run make docs", o.path)
		}
	}
}

func TestWriteAndRelease(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := write(root); err != nil {
		t.Fatal(err)
	}
	if err := copyReleased(root); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(root, described))
	if err != nil {
		t.Fatal(err)
	}
	then, err := os.ReadFile(filepath.Join(root, released))
	if err != nil || !bytes.Equal(now, then) || len(now) == 0 {
		t.Errorf("the released description is not the one of now: %v", err)
	}
	if err := write(filepath.Join(root, described)); err == nil {
		t.Error("a file was taken for a folder")
	}
}
