// Command build writes the demo's runner image to a file that podman load takes:
//
//	go run ./sim/image/build --entrypoint bin/zoomies-entrypoint --runner bin/sim-runner --output bin/demo-runner.tar
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/zoomies-fleet/zoomies/sim/image"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "build:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	var opts image.Options
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.Entrypoint, "entrypoint", "", "the `program` of images/entrypoint, static")
	flags.StringVar(&opts.Runner, "runner", "", "the `program` of sim/runner, static")
	flags.StringVar(&opts.Busybox, "busybox", "", "a static BusyBox `program` (default: the one in PATH)")
	flags.StringVar(&opts.Ref, "ref", image.DefaultRef, "the image's `name`")
	output := flags.String("output", "", "the archive `file` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *output == "" || opts.Entrypoint == "" || opts.Runner == "" || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("--entrypoint, --runner and --output are needed")
	}
	if opts.Busybox == "" {
		path, err := exec.LookPath("busybox")
		if err != nil {
			return fmt.Errorf("cannot find BusyBox: %w; make deps installs the package busybox-static", err)
		}
		opts.Busybox = path
	}
	return writeFile(*output, func(w io.Writer) error { return image.Build(w, opts) })
}

// writeFile writes path whole or not at all, so that a build that was interrupted never
// leaves an archive that looks finished.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already after the rename
	buffered := bufio.NewWriterSize(file, 1<<20)
	err = errors.Join(write(buffered), buffered.Flush(), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	return err
}
