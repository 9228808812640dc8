package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/zoomies-fleet/zoomies/images/catalogue"
)

// pack makes a tar of headers; every file holds its own name.
func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(h.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(b)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func regular(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Uid: 501, Uname: "builder"}
}

func directory(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}
}

// fakeDebian is a bootstrap that gives a small root file system, at another time on each call.
func fakeDebian(t *testing.T, seen *[]rootfs) bootstrapFunc {
	calls := 0
	return func(_ context.Context, _ io.Writer, _ request, fs rootfs, dest string) error {
		calls++
		now := time.Now().Add(time.Duration(calls) * time.Hour)
		if seen != nil {
			*seen = append(*seen, fs)
		}
		headers := []tar.Header{directory("./"), directory("./etc/"), regular("./etc/passwd"), regular("./etc/hostname"), directory("./dev/"), regular("./dev/null")}
		for i := range headers {
			headers[i].ModTime = now
		}
		return os.WriteFile(dest, pack(t, headers...), 0o600)
	}
}

// files writes the inputs of a runner build and returns its arguments.
func files(t *testing.T) (args []string, output string) {
	t.Helper()
	dir := t.TempDir()
	archive := zipped(t, pack(t, directory("./"), regular("./run.sh"), regular("./config.sh"), directory("./bin/"), regular("./bin/Runner.Listener")))
	sum := sha256.Sum256(archive)
	for name, data := range map[string][]byte{"runner.tar.gz": archive, "entrypoint": []byte("entrypoint")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output = filepath.Join(dir, "out", "image.tar")
	if err := os.Mkdir(filepath.Dir(output), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{
		"runner", "--system", "debian-12", "--archive", filepath.Join(dir, "runner.tar.gz"),
		"--entrypoint", filepath.Join(dir, "entrypoint"), "--output", output, "--sha256", hex.EncodeToString(sum[:]),
	}, output
}

func config(t *testing.T, archive string) (v1.Image, v1.Config) {
	t.Helper()
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return img, file.Config
}

func TestRunnerImage(t *testing.T) {
	t.Parallel()
	args, output := files(t)
	var seen []rootfs
	if err := run(t.Context(), append(args, "--client", "docker"), io.Discard, fakeDebian(t, &seen)); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || !slices.Contains(seen[0].packages, "docker.io") || !slices.Contains(seen[0].packages, "libicu72") {
		t.Errorf("packages %v", seen)
	}
	img, c := config(t, output)
	if c.User != "1001" || c.WorkingDir != "/home/runner" || !slices.Equal(c.Entrypoint, []string{entrypointPath}) {
		t.Errorf("config %+v", c)
	}
	if c.Labels[catalogue.LabelClient] != "docker" || c.Labels[catalogue.LabelVersion] != "" {
		t.Errorf("an archive of unknown version is labelled %v", c.Labels)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]int{}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if err := eachEntry(content, func(h *tar.Header, _ io.Reader) error {
			owner[h.Name] = h.Uid
			if h.Uname != "" {
				t.Errorf("%s names its owner", h.Name)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_ = content.Close()
	}
	for name, uid := range map[string]int{
		"etc/passwd": 501, "home/runner/run.sh": 1001, "home/runner/bin/Runner.Listener": 1001, "home/runner/_work/": 1001,
		"usr/local/bin/zoomies-entrypoint": 0, "etc/sudoers.d/runner": 0,
	} {
		if got, ok := owner[name]; !ok || got != uid {
			t.Errorf("%s: there %t, owner %d", name, ok, got)
		}
	}
	for _, name := range []string{"etc/hostname", "dev/null"} {
		if _, ok := owner[name]; ok {
			t.Errorf("%s of the building machine is in the image", name)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(output)); err != nil || len(left) != 1 {
		t.Errorf("left beside the image: %v, %v", left, err)
	}
}

func TestSamePackagesGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	args, output := files(t)
	bootstrap := fakeDebian(t, nil)
	var builds [2][]byte
	for i := range builds {
		if err := run(t.Context(), args, io.Discard, bootstrap); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		builds[i] = b
	}
	if !bytes.Equal(builds[0], builds[1]) {
		t.Fatal("two builds at different times differ")
	}
}

func TestDaemonImage(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "d.tar")
	if err := run(t.Context(), []string{"podman-daemon", "--output", output}, io.Discard, fakeDebian(t, nil)); err != nil {
		t.Fatal(err)
	}
	img, c := config(t, output)
	if _, ok := c.Volumes["/var/lib/containers"]; !ok || !slices.Equal(c.Entrypoint, []string{"/usr/bin/catatonit", "--"}) || c.Cmd[0] != "podman" {
		t.Fatalf("config %+v", c)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	socket, conf := "", ""
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if err := eachEntry(content, func(h *tar.Header, from io.Reader) error {
			switch h.Name {
			case "run/docker.sock":
				socket = h.Linkname
			case "etc/containers/containers.conf":
				text, err := io.ReadAll(from)
				conf = string(text)
				return err
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_ = content.Close()
	}
	if socket != "/run/zoomies/docker.sock" || !strings.Contains(conf, `cgroups = "disabled"`) {
		t.Errorf("the usual socket is %q, the configuration %q", socket, conf)
	}
}

func TestArchiveWithAnotherHashIsRefused(t *testing.T) {
	t.Parallel()
	args, output := files(t)
	for name, tail := range map[string][]string{
		"not the pinned one": args[:len(args)-2],
		"not the given one":  append(slices.Clone(args[:len(args)-1]), strings.Repeat("0", 64)),
	} {
		err := run(t.Context(), tail, io.Discard, func(context.Context, io.Writer, request, rootfs, string) error {
			t.Errorf("%s: a root file system was made", name)
			return errors.New("called")
		})
		if err == nil || !strings.Contains(err.Error(), "its SHA-256 is") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(output); err == nil {
			t.Errorf("%s: an image was written", name)
		}
	}
}

func TestWhatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "x.tar")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "--output"},
		{[]string{"runner"}, "--output"},
		{[]string{"runner", "--output", out}, "--archive and --entrypoint"},
		{[]string{"runner", "--output", out, "--system", "ubuntu-24.04"}, "images/ubuntu-24.04/Containerfile"},
		{[]string{"runner", "--output", out, "--system", "beos"}, "no runner image"},
		{[]string{"sidecar", "--output", out}, "no image called"},
	} {
		if err := run(t.Context(), tc.args, io.Discard, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v", tc.args, err)
		}
	}
}

func TestRunnerArchiveIsKeptInItsPlace(t *testing.T) {
	t.Parallel()
	good := []tar.Header{regular("run.sh"), regular("config.sh")}
	for name, tc := range map[string]struct {
		extra tar.Header
		want  string
	}{
		"out by name":      {regular("../etc/passwd"), "leads out"},
		"out by dots":      {regular("bin/../../etc/passwd"), "leads out"},
		"absolute":         {regular("/etc/passwd"), "leads out"},
		"out by hard link": {tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}, "leads out"},
		"a device":         {tar.Header{Name: "x", Typeflag: tar.TypeChar}, "neither a file"},
	} {
		var buf bytes.Buffer
		w := &layerWriter{tar: tar.NewWriter(&buf)}
		err := w.runner(bytes.NewReader(zipped(t, pack(t, append(slices.Clone(good), tc.extra)...))))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := &layerWriter{tar: tar.NewWriter(io.Discard)}
	if err := w.runner(bytes.NewReader(zipped(t, pack(t, good[0])))); err == nil || !strings.Contains(err.Error(), "config.sh is not in it") {
		t.Errorf("no config.sh: %v", err)
	}
	if err := w.runner(strings.NewReader("not gzip")); err == nil {
		t.Error("what is not gzip was taken")
	}
}

func FuzzRunnerArchive(f *testing.F) {
	f.Add("run.sh", "config.sh", byte(tar.TypeReg))
	f.Add("../x", "/etc/passwd", byte(tar.TypeLink))
	f.Add("a/./b//c/..", "..", byte(tar.TypeSymlink))
	f.Fuzz(func(t *testing.T, name, link string, kind byte) {
		var packed bytes.Buffer
		pw := tar.NewWriter(&packed)
		if pw.WriteHeader(&tar.Header{Name: name, Linkname: link, Typeflag: kind, Mode: 0o7777}) != nil || pw.Close() != nil {
			t.Skip()
		}
		var layer bytes.Buffer
		w := &layerWriter{tar: tar.NewWriter(&layer)}
		_ = w.runner(bytes.NewReader(zipped(t, packed.Bytes())))
		_ = eachEntry(&layer, func(h *tar.Header, _ io.Reader) error {
			clean := filepath.Clean(h.Name)
			if clean != "home/runner" && !strings.HasPrefix(clean, "home/runner/") {
				t.Fatalf("%q landed at %q", name, h.Name)
			}
			if h.Typeflag == tar.TypeLink && !strings.HasPrefix(filepath.Clean(h.Linkname), "home/runner") {
				t.Fatalf("a hard link to %q", h.Linkname)
			}
			if h.Mode&0o7000 != 0 || h.Uid != runnerUser {
				t.Fatalf("%q has mode %o and owner %d", h.Name, h.Mode, h.Uid)
			}
			return nil
		})
	})
}

func TestMirrorOfThisMachineIsUsedForAnySuite(t *testing.T) {
	t.Parallel()
	targets := `Other|Node Source|nodistro|http://other.example/
Debian|Debian|bookworm-updates|http://mirror.example/debian/
Debian|Debian-Security|bookworm-security|http://mirror.example/security/
Debian|Debian|bookworm|http://mirror.example/debian/
`
	want := []string{
		"deb http://mirror.example/debian/ trixie main",
		"deb http://mirror.example/debian/ trixie-updates main",
		"deb http://mirror.example/security/ trixie-security main",
	}
	if got := mirrorLines(targets, "trixie"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := mirrorLines("Other|Other|x|http://other.example/\n\n", "trixie"); got != nil {
		t.Errorf("%q", got)
	}
}

func TestEpoch(t *testing.T) {
	t.Parallel()
	released := time.Date(2026, 10, 6, 0, 0, 0, 0, time.UTC)
	for env, want := range map[string]time.Time{"": released, "1700000000": time.Unix(1700000000, 0).UTC(), "now": {}, "-1": {}} {
		got, err := epoch(released, env)
		if !got.Equal(want) || (err != nil) != want.IsZero() {
			t.Errorf("%q: %s, %v", env, got, err)
		}
	}
}
