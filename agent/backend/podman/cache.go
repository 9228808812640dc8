package podman

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

var _ backend.ImageStore = (*Backend)(nil)

// HasImage implements backend.ImageStore.
func (b *Backend) HasImage(ctx context.Context, ref string) (bool, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return false, err
	}
	return b.images.Has(ref, func() (bool, error) { return exists(ctx, ref) })
}

// ImageID implements backend.ImageStore.
func (b *Backend) ImageID(ctx context.Context, ref string) (string, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return "", err
	}
	i, err := images.GetImage(ctx, ref, nil)
	err = fault("look at image "+ref, err)
	switch {
	case err != nil && (errors.Is(err, backend.ErrImage) || gone(err)):
		return "", nil
	case err != nil || i.ImageData == nil:
		return "", err
	}
	return i.ID, nil
}

// Images implements backend.ImageStore.
func (b *Backend) Images(ctx context.Context) ([]backend.Image, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	found, err := images.List(ctx, nil)
	if err != nil {
		return nil, fault("list images", err)
	}
	out := make([]backend.Image, 0, len(found))
	for _, i := range found {
		names := slices.DeleteFunc(slices.Clone(i.RepoTags), func(n string) bool { return strings.Contains(n, "<none>") })
		out = append(out, backend.Image{ID: i.ID, Names: names, SizeMB: i.Size >> 20, InUse: i.Containers > 0})
	}
	return out, nil
}

// RemoveImage implements backend.ImageStore.
func (b *Backend) RemoveImage(ctx context.Context, refOrID string) error {
	ctx, err := b.dial(ctx)
	if err != nil {
		return err
	}
	return b.images.Remove(refOrID, func() error {
		_, errs := images.Remove(ctx, []string{refOrID}, new(images.RemoveOptions).WithForce(false))
		err := errors.Join(errs...)
		// What the engine says of single images comes as bare text.
		if err != nil && (gone(err) || strings.Contains(err.Error(), "image not known")) {
			return nil
		}
		return fault("remove image "+refOrID, err)
	})
}
