package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// builder collects the layers of an image in a scratch directory beside the output.
type builder struct {
	req    request
	dir    string
	layers []v1.Layer
}

func newBuilder(req request) (*builder, error) {
	out, err := filepath.Abs(req.output)
	if err != nil {
		return nil, fmt.Errorf("cannot build: %w", err)
	}
	req.output = out
	dir, err := os.MkdirTemp(filepath.Dir(out), ".build-")
	if err != nil {
		return nil, fmt.Errorf("cannot build: %w", err)
	}
	return &builder{req: req, dir: dir}, nil
}

func (b *builder) close() { _ = os.RemoveAll(b.dir) }

// addRootfs makes the first layer.
func (b *builder) addRootfs(ctx context.Context, log io.Writer, bootstrap bootstrapFunc, fs rootfs) error {
	raw := filepath.Join(b.dir, "rootfs.tar")
	if err := bootstrap(ctx, log, b.req, fs, raw); err != nil {
		return err
	}
	file, err := os.Open(raw)
	if err != nil {
		return fmt.Errorf("cannot read the root file system: %w", err)
	}
	defer func() { _ = file.Close(); _ = os.Remove(raw) }()
	return b.add(func(l *layerWriter) error { return l.rootfs(bufio.NewReaderSize(file, 1<<20)) })
}

func (b *builder) add(fill func(*layerWriter) error) error {
	layer, err := writeLayer(filepath.Join(b.dir, strconv.Itoa(len(b.layers))+".tar"), b.req.epoch, fill)
	if err != nil {
		return err
	}
	b.layers = append(b.layers, layer)
	return nil
}

// write makes the archive, whole or not at all.
func (b *builder) write(ref string, config v1.Config) error {
	tag, err := name.NewTag(ref, name.WithDefaultRegistry("localhost"))
	if err != nil {
		return fmt.Errorf("cannot name the image: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, b.layers...)
	if err != nil {
		return fmt.Errorf("cannot build the image %s: %w", ref, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("cannot build the image %s: %w", ref, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = "linux", b.req.arch, v1.Time{Time: b.req.epoch}, config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return fmt.Errorf("cannot build the image %s: %w", ref, err)
	}
	out, err := os.Create(filepath.Join(b.dir, "image.tar"))
	if err != nil {
		return fmt.Errorf("cannot write the image: %w", err)
	}
	buffered := bufio.NewWriterSize(out, 1<<20)
	err = errors.Join(tarball.Write(tag, img, buffered), buffered.Flush(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), b.req.output)
	}
	if err != nil {
		return fmt.Errorf("cannot write the image %s: %w", ref, err)
	}
	return nil
}
