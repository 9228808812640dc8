package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// presentFor is how long an image that was seen is believed to be there.
const presentFor = time.Minute

// Prepare makes image present. What was seen present within the last minute is not asked for
// again, unless the policy is always.
func (b *Backend) Prepare(ctx context.Context, image, policy string) error {
	if policy == backend.PullAlways {
		return b.pull(ctx, image)
	}
	b.mu.Lock()
	seen := b.present[image]
	b.mu.Unlock()
	if !seen.IsZero() && b.now().Sub(seen) < presentFor {
		return nil
	}
	_, err := b.api.ImageInspect(ctx, image)
	switch {
	case err == nil:
		b.saw(image)
		return nil
	case !errors.Is(fault("", err), backend.ErrImage) && !errors.Is(fault("", err), backend.ErrNotFound):
		return fault("look for image "+image, err)
	case policy == backend.PullNever:
		return fmt.Errorf("image %s is not on this host and the pull policy is never: load it, or let it be pulled: %w", image, backend.ErrImage)
	}
	return b.pull(ctx, image)
}

func (b *Backend) pull(ctx context.Context, image string) error {
	b.mu.Lock()
	delete(b.present, image)
	b.mu.Unlock()
	progress, err := b.api.ImagePull(ctx, image, client.ImagePullOptions{})
	if err == nil {
		err = progress.Wait(ctx)
	}
	if err != nil {
		err = fault("pull "+image, err)
		if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return fmt.Errorf("%w: %w", backend.ErrImage, err)
	}
	b.saw(image)
	return nil
}

func (b *Backend) saw(image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.present[image] = b.now()
}

// Load puts an image archive into the engine and returns its name.
func (b *Backend) Load(ctx context.Context, archive io.Reader) (string, error) {
	answer, err := b.api.ImageLoad(ctx, archive)
	if err != nil {
		return "", fault("load the image archive", err)
	}
	defer func() { _ = answer.Close() }()
	lines := json.NewDecoder(answer)
	for {
		var line struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		if err := lines.Decode(&line); err != nil {
			return "", fmt.Errorf("cannot load the image archive: it names no image: %w", err)
		}
		if line.Error != "" {
			return "", fmt.Errorf("cannot load the image archive: %s", line.Error)
		}
		if _, ref, ok := strings.Cut(line.Stream, "Loaded image: "); ok {
			return strings.TrimSpace(ref), nil
		}
	}
}
