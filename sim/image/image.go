// Package image makes the runner image of the demo and the tests: BusyBox, the entrypoint of
// the real images, and the simulated runner where the real one would be. It needs no container
// engine, no registry and no root, and the same input gives the same bytes.
package image

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// DefaultRef is what the demo calls the image. The localhost host keeps an engine from asking
// a registry for it.
const DefaultRef = "localhost/zoomies/demo-runner:latest"

// Where things are in the image.
const (
	EntrypointPath = "/usr/local/bin/zoomies-entrypoint"
	RunnerPath     = "/home/runner/run.sh"
	NodePath       = "/home/runner/externals/node24/bin/node" // a shell script in place of Node.js
	Home           = "/home/runner"
	UserID         = 1001 // as in the real images
)

// Options say what to build from: paths of static programs of one architecture.
type Options struct {
	Entrypoint string // images/entrypoint, built
	Runner     string // sim/runner, built
	Busybox    string // of Debian's busybox-static
	Ref        string // empty is DefaultRef
}

// Build writes the image to w as a docker-archive, which podman load and docker load take.
func Build(w io.Writer, opts Options) error {
	ref := opts.Ref
	if ref == "" {
		ref = DefaultRef
	}
	tag, err := name.NewTag(ref, name.WithDefaultRegistry("localhost"))
	if err != nil {
		return fmt.Errorf("cannot build the image: %w", err)
	}
	img, err := build(opts)
	if err != nil {
		return fmt.Errorf("cannot build the image %s: %w", ref, err)
	}
	if err := tarball.Write(tag, img, w); err != nil {
		return fmt.Errorf("cannot write the image %s: %w", ref, err)
	}
	return nil
}

func build(opts Options) (v1.Image, error) {
	busybox, err := readProgram(opts.Busybox)
	if err != nil {
		return nil, fmt.Errorf("%w; on Debian BusyBox is in the package busybox-static (make deps installs it)", err)
	}
	entrypoint, err := readProgram(opts.Entrypoint)
	if err != nil {
		return nil, err
	}
	runner, err := readProgram(opts.Runner)
	if err != nil {
		return nil, err
	}
	if busybox.arch != entrypoint.arch || entrypoint.arch != runner.arch {
		return nil, fmt.Errorf("the programs are of different architectures: BusyBox %s, entrypoint %s, runner %s",
			busybox.arch, entrypoint.arch, runner.arch)
	}
	applets, err := appletsOf(opts.Busybox)
	if err != nil {
		return nil, err
	}
	// What changes most often comes last, so that a rebuild shares the layers before it.
	layers := []layer{
		baseLayer(busybox.data, applets),
		{executable(EntrypointPath, entrypoint.data), executable(NodePath, []byte("#!/bin/sh\necho node ran \"$@\"\n"))},
		{executable(RunnerPath, runner.data)},
	}
	img := empty.Image
	for _, l := range layers {
		data, err := l.tar()
		if err != nil {
			return nil, err
		}
		// Not compressed: the archive is read once, on the machine where it was made.
		if img, err = mutate.AppendLayers(img, static.NewLayer(data, types.DockerUncompressedLayer)); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runner.arch
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		User:       fmt.Sprint(UserID),
		WorkingDir: Home,
		Entrypoint: []string{EntrypointPath},
		Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + Home, "LANG=C.UTF-8"},
		Labels:     map[string]string{"org.opencontainers.image.title": "Zoomies demo runner"},
	}
	return mutate.ConfigFile(img, config)
}

// epoch is the time of everything in the image.
var epoch = time.Unix(0, 0).UTC()

var errNoPath = errors.New("no path is given")
