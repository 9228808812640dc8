// Command build makes container images of Debian's packages on a machine that reaches a Debian
// mirror (or holds one) and nothing else: the runner images of the catalogue that are Debian,
// and the sidecar in which a Podman-first pool builds its images. It pulls from no registry,
// and the same packages give the same bytes.
//
//	go run ./images/build runner --system debian-12 --archive actions-runner-….tar.gz --entrypoint bin/zoomies-entrypoint --output runner.tar
//	go run ./images/build podman-daemon --system debian-13 --output podman-daemon.tar
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/zoomies-fleet/zoomies/images/catalogue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr, mmdebstrap)
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "build:", err)
		}
		os.Exit(1)
	}
}

// request is one image to build.
type request struct {
	system     catalogue.System
	client     catalogue.Client
	arch       string
	mirrors    list
	archive    string
	sha256     string
	entrypoint string
	ref        string
	output     string
	epoch      time.Time // no file in the image is newer
}

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return fmt.Sprint([]string(*l)) }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

const usage = "usage: build runner|podman-daemon --output FILE [flags]"

func run(ctx context.Context, args []string, stderr io.Writer, bootstrap bootstrapFunc) error {
	c, err := catalogue.Load()
	if err != nil {
		return err
	}
	kind := ""
	if len(args) > 0 {
		kind, args = args[0], args[1:]
	}
	var (
		req            request
		system, client string
	)
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&req.output, "output", "", "the docker-archive `file` to write; podman load takes it")
	flags.StringVar(&req.ref, "ref", "", "the image's `name` (default: the catalogue's)")
	flags.StringVar(&system, "system", "debian-13", "a Debian `system` of the catalogue")
	flags.StringVar(&req.arch, "arch", runtime.GOARCH, "`architecture`: amd64 or arm64")
	flags.Var(&req.mirrors, "mirror", "a `line` of sources.list, may be repeated (default: the mirror that apt uses here)")
	if kind == "runner" {
		flags.StringVar(&client, "client", "", "container client in the image: docker, podman, or none")
		flags.StringVar(&req.archive, "archive", "", "the runner's archive, a `file`")
		flags.StringVar(&req.sha256, "sha256", "", "the archive's `hash`, when it is not the release that the catalogue pins")
		flags.StringVar(&req.entrypoint, "entrypoint", "", "images/entrypoint as a static `program` of that architecture")
	}
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || req.output == "" {
		flags.Usage()
		return errors.New("--output is needed, and no other arguments")
	}
	if req.system, err = debian(c, system); err != nil {
		return err
	}
	if client != "none" {
		req.client = catalogue.Client(client)
	}
	if req.epoch, err = epoch(c.Runner.Released.Time(), os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	switch kind {
	case "runner":
		return buildRunner(ctx, c, req, stderr, bootstrap)
	case "podman-daemon":
		return buildDaemon(ctx, c, req, stderr, bootstrap)
	}
	flags.Usage()
	return fmt.Errorf("there is no image called %q", kind)
}

// debian returns the system of that ID when it can be built of Debian's packages.
func debian(c catalogue.Catalogue, id string) (catalogue.System, error) {
	s, err := c.System(id)
	if err == nil && s.Suite == "" {
		err = fmt.Errorf("%s is not Debian: build it from images/%s/Containerfile", s.Title, s.ID)
	}
	return s, err
}

// epoch is SOURCE_DATE_EPOCH, or the runner's release when it is not set.
func epoch(released time.Time, env string) (time.Time, error) {
	if env == "" {
		return released, nil
	}
	seconds, err := strconv.ParseInt(env, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH must be a whole number of seconds")
	}
	return time.Unix(seconds, 0).UTC(), nil
}
