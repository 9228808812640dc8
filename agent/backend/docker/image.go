package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Prepare makes image present. What was seen present within the last minute is not asked for
// again, unless the policy is always.
func (b *Backend) Prepare(ctx context.Context, image, policy string) error {
	return b.images.Prepare(image, policy, func() (bool, error) { return b.exists(ctx, image) }, func() error { return b.pull(ctx, image) })
}

func (b *Backend) exists(ctx context.Context, image string) (bool, error) {
	_, err := b.api.ImageInspect(ctx, image)
	err = fault("look for image "+image, err)
	if errors.Is(err, backend.ErrImage) || errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (b *Backend) pull(ctx context.Context, image string) error {
	return b.images.Pull(image, func() error {
		progress, err := b.api.ImagePull(ctx, image, client.ImagePullOptions{})
		if err == nil {
			err = progress.Wait(ctx)
		}
		return fault("pull "+image, err)
	})
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
