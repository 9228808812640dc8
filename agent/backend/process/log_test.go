package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A43: a chatty job must not fill the disk.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	log, err := newCappedLog(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := fmt.Fprintf(log, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 1000 {
			t.Fatalf("the log has %d bytes, %v", info.Size(), err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(data), "line 499\n") {
		t.Errorf("it ends in %q, %v", data, err)
	}
}

func TestTailFindsLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for _, c := range []struct {
		text, want string
		n          int
	}{
		{"", "", 3}, {"a\n", "a\n", 1}, {"a\nb\nc\n", "b\nc\n", 2}, {"a\nb", "b", 1},
		{"a\n\n\n", "\n\n", 2}, {"a\n" + long + "\nb\n", long + "\nb\n", 2}, {"a\nb\n", "a\nb\n", 9},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := seekTail(file, c.n); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(file)
		if string(got) != c.want || err != nil {
			t.Errorf("the last %d of %.20q are %.20q, %v", c.n, c.text, got, err)
		}
		_ = file.Close()
	}
}
