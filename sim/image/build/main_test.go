package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArgumentsThatAreMissing(t *testing.T) {
	t.Parallel()
	var usage bytes.Buffer
	if err := run([]string{"--output", "x"}, &usage); err == nil || !strings.Contains(usage.String(), "-runner") {
		t.Fatalf("%v\n%s", err, &usage)
	}
}

func TestAFailedBuildLeavesNoArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "image.tar")
	broken := errors.New("broken")
	err := writeFile(path, func(w io.Writer) error { _, _ = w.Write([]byte("half")); return broken })
	left, readErr := os.ReadDir(dir)
	if !errors.Is(err, broken) || readErr != nil || len(left) != 0 {
		t.Fatalf("error %v, left %v", err, left)
	}
	if err := writeFile(path, func(w io.Writer) error { _, err := w.Write([]byte("all")); return err }); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "all" {
		t.Fatalf("%q, %v", got, err)
	}
}
