package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/images/catalogue"
)

const (
	runnerUser     = 1001
	runnerHome     = "/home/runner"
	entrypointPath = "/usr/local/bin/zoomies-entrypoint"
)

func buildRunner(ctx context.Context, c catalogue.Catalogue, req request, log io.Writer, bootstrap bootstrapFunc) error {
	if req.archive == "" || req.entrypoint == "" {
		return errors.New("--archive and --entrypoint are needed")
	}
	ref, err := c.Resolve(req.system.ID, req.client)
	if err != nil {
		return err
	}
	if req.ref != "" {
		ref = req.ref
	}
	archive, err := openArchive(req.archive, c.Runner.Archives[req.arch], req.sha256)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	entrypoint, err := os.ReadFile(req.entrypoint)
	if err != nil {
		return fmt.Errorf("cannot read the entrypoint: %w", err)
	}

	b, err := newBuilder(req)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.addRootfs(ctx, log, bootstrap, rootfs{
		packages: c.PackagesOf(req.system, req.client),
		hooks:    []string{fmt.Sprintf(`chroot "$1" useradd --create-home --uid %d --user-group --shell /bin/bash runner`, runnerUser)},
	}); err != nil {
		return err
	}
	if err := b.add(func(l *layerWriter) error { return l.runner(archive) }); err != nil {
		return err
	}
	if err := b.add(func(l *layerWriter) error {
		return errors.Join(
			// What a job does with it stays inside the container: the backends keep only the
			// capabilities that a package manager needs.
			l.file("/etc/sudoers.d/runner", 0o440, []byte("runner ALL=(ALL:ALL) NOPASSWD:ALL\n")),
			l.file(entrypointPath, 0o755, entrypoint),
		)
	}); err != nil {
		return err
	}
	labels := c.Labels(req.client)
	if req.sha256 != "" { // whatever was given, it is not what the catalogue pins
		delete(labels, catalogue.LabelVersion)
		delete(labels, catalogue.LabelReleased)
	}
	return b.write(ref, v1.Config{
		User: fmt.Sprint(runnerUser), WorkingDir: runnerHome, Entrypoint: []string{entrypointPath},
		Env:    []string{"PATH=" + defaultPath, "LANG=C.UTF-8"},
		Labels: labels,
	})
}

// openArchive opens the runner's archive once its hash is the pinned one, or the one that the
// caller gave in its place.
func openArchive(path string, pinned catalogue.Archive, override string) (*os.File, error) {
	want := pinned.SHA256
	if override != "" {
		want = strings.ToLower(override)
	}
	if want == "" {
		return nil, errors.New("cannot check the archive: the catalogue pins none for this architecture")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the runner's archive: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != want {
		err = fmt.Errorf("its SHA-256 is %s, not %s; get %s again, or name its hash with --sha256", got, want, pinned.File)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot use the runner's archive %s: %w", path, err)
	}
	return file, nil
}
