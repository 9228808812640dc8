package podman

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/images"
)

// Prepare makes image present. What was seen present within the last minute is not asked for
// again, unless the policy is always.
func (b *Backend) Prepare(ctx context.Context, image, policy string) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	return b.images.Prepare(image, policy, func() (bool, error) { return exists(ctx, image) }, func() error { return b.pull(ctx, image) })
}

func exists(ctx context.Context, image string) (bool, error) {
	there, err := images.Exists(ctx, image, nil)
	return there, fault("look for image "+image, err)
}

func (b *Backend) pull(ctx context.Context, image string) error {
	return b.images.Pull(image, func() error {
		_, err := images.Pull(ctx, image, pullOptions())
		return fault("pull "+image, err)
	})
}

func pullOptions() *images.PullOptions {
	o := new(images.PullOptions).WithQuiet(true)
	if os.Geteuid() != 0 && os.Getenv("XDG_RUNTIME_DIR") == "" {
		// Outside of a login session the bindings look for registry logins below /run/containers, which is closed to
		// users where root uses Podman too.
		if dir, err := os.UserConfigDir(); err == nil {
			o.WithAuthfile(filepath.Join(dir, "containers", "auth.json"))
		}
	}
	return o
}

// Load puts an image archive (docker or OCI) into the engine and returns its first name.
func (b *Backend) Load(ctx context.Context, archive io.Reader) (string, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return "", err
	}
	report, err := images.Load(ctx, archive)
	if err != nil {
		return "", fault("load the image archive", err)
	}
	if len(report.Names) == 0 {
		return "", errors.New("cannot load the image archive: it names no image")
	}
	return strings.TrimSpace(report.Names[0]), nil
}
