package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// presentFor is how long an image that was seen is believed to be there.
const presentFor = time.Minute

// Prepare makes image present. What was seen present within the last minute is not asked for
// again, unless the policy is always.
func (b *Backend) Prepare(ctx context.Context, image, policy string) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	if policy == backend.PullAlways {
		return b.pull(ctx, image)
	}
	b.mu.Lock()
	seen := b.present[image]
	b.mu.Unlock()
	if !seen.IsZero() && b.now().Sub(seen) < presentFor {
		return nil
	}
	there, err := images.Exists(ctx, image, nil)
	if err != nil {
		return fault("look for image "+image, err)
	}
	if there {
		b.saw(image)
		return nil
	}
	if policy == backend.PullNever {
		return fmt.Errorf("image %s is not on this host and the pull policy is never: load it, or let it be pulled: %w", image, backend.ErrImage)
	}
	return b.pull(ctx, image)
}

func (b *Backend) pull(ctx context.Context, image string) error {
	b.mu.Lock()
	delete(b.present, image)
	b.mu.Unlock()
	_, err := images.Pull(ctx, image, pullOptions())
	if err != nil {
		err = fault("pull "+image, err)
		if transportOrContext(err) {
			return err
		}
		return fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	b.saw(image)
	return nil
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

func (b *Backend) saw(image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.present[image] = b.now()
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
