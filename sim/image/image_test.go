package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// options are the real entrypoint and a small runner, built once for all tests.
var options Options

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "demo-image")
	if err == nil {
		options = Options{Entrypoint: filepath.Join(dir, "entrypoint"), Runner: filepath.Join(dir, "runner")}
		err = errors.Join(compile(options.Entrypoint, "../../images/entrypoint"), compile(options.Runner, "./testdata/runner"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the programs of the image:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func compile(out, pkg string) error {
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// need fails the test when a program is missing: a test that is skipped protects nothing.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is missing: run make deps", program)
	}
	return path
}

func buildImage(t *testing.T, opts Options) []byte {
	t.Helper()
	opts.Busybox = need(t, "busybox")
	var buf bytes.Buffer
	if err := Build(&buf, opts); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(buildImage(t, options), buildImage(t, options)) {
		t.Fatal("two builds differ")
	}
}

func layersOf(t *testing.T, archive []byte) []string {
	t.Helper()
	img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, id := range config.RootFS.DiffIDs {
		ids = append(ids, id.Hex)
	}
	return ids
}

func TestARebuiltRunnerChangesOneLayer(t *testing.T) {
	t.Parallel()
	before := layersOf(t, buildImage(t, options))
	other := options
	other.Runner = options.Entrypoint
	after := layersOf(t, buildImage(t, other))
	if len(before) != 3 || len(after) != 3 || before[0] != after[0] || before[1] != after[1] || before[2] == after[2] {
		t.Fatalf("layers before %v, after %v", before, after)
	}
}

func TestLayerIsSortedAndTimeless(t *testing.T) {
	t.Parallel()
	data, err := baseLayer([]byte("busybox"), []string{"sh", "cat"}).tar()
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(bytes.NewReader(data))
	seen := map[string]*tar.Header{}
	for last := ""; ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name <= last || !h.ModTime.Equal(epoch) || h.Uname != "" {
			t.Errorf("%s after %s, of %s by %q", h.Name, last, h.ModTime, h.Uname)
		}
		last, seen[h.Name] = h.Name, h
	}
	for name, want := range map[string]struct {
		mode int64
		uid  int
	}{
		"tmp/": {0o1777, 0}, "home/runner/": {0o755, 1001}, "home/runner/_work/": {0o755, 1001},
		"bin/busybox": {0o755, 0}, "bin/sh": {0o777, 0}, "etc/passwd": {0o644, 0},
	} {
		if h := seen[name]; h == nil || h.Mode != want.mode || h.Uid != want.uid || h.Gid != want.uid {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestBuildRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	busybox := need(t, "busybox")
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"missing runner":  {Options{Entrypoint: options.Entrypoint, Runner: "/nowhere", Busybox: busybox}, "/nowhere"},
		"a script":        {Options{Entrypoint: options.Entrypoint, Runner: script, Busybox: busybox}, "not a Linux program"},
		"no BusyBox":      {Options{Entrypoint: options.Entrypoint, Runner: options.Runner}, "busybox-static"},
		"not a BusyBox":   {Options{Entrypoint: options.Entrypoint, Runner: options.Runner, Busybox: options.Runner}, "applets"},
		"dynamic program": {Options{Entrypoint: need(t, "podman"), Runner: options.Runner, Busybox: busybox}, "not static"},
		"bad name":        {Options{Entrypoint: options.Entrypoint, Runner: options.Runner, Busybox: busybox, Ref: "A B"}, "cannot build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Build(io.Discard, tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
		})
	}
}
