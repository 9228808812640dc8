package backendtest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestImage is the name of the image that the suite runs: busybox and nothing else.
const TestImage = "localhost/zoomies-test:latest"

// File is one file of a made-up image.
type File struct {
	Path string // without a leading slash; ends in / for a directory
	Mode int64
	Data []byte
	Link string // symbolic link to this
	UID  int
}

// BusyboxFiles are a root file system of Debian's static busybox with a link for each of its
// programs and a home for the runner's user (1001).
func BusyboxFiles() ([]File, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("cannot make the test image: busybox is not installed: run `make deps`: %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot make the test image: %w", err)
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot make the test image: %w", err)
	}
	files := []File{
		{Path: "bin/", Mode: 0o755}, {Path: "bin/busybox", Mode: 0o755, Data: program},
		{Path: "tmp/", Mode: 0o1777}, {Path: "etc/", Mode: 0o755}, {Path: "run/", Mode: 0o755},
		{Path: "var/", Mode: 0o755}, {Path: "var/tmp/", Mode: 0o1777},
		{Path: "home/", Mode: 0o755}, {Path: "home/runner/", Mode: 0o755, UID: 1001},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/bin/sh\nrunner:x:1001:1001::/home/runner:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nrunner:x:1001:\n")},
	}
	for program := range strings.FieldsSeq(string(list)) {
		if program != "busybox" {
			files = append(files, File{Path: "bin/" + program, Link: "busybox"})
		}
	}
	return files, nil
}

// WriteImage writes an image archive with one layer of files that docker and podman load.
func WriteImage(w io.Writer, ref string, config v1.Config, files []File) error {
	layerTar, err := layer(files)
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerTar)), nil
	})
	if err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	if err := tarball.Write(tag, image, w); err != nil {
		return fmt.Errorf("cannot make image %s: %w", ref, err)
	}
	return nil
}

func layer(files []File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), Uid: f.UID, Gid: f.UID, Typeflag: tar.TypeReg}
		switch {
		case f.Link != "":
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
		case strings.HasSuffix(f.Path, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("cannot make an image layer: %w", err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("cannot make an image layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot make an image layer: %w", err)
	}
	return out.Bytes(), nil
}
