package docker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

var _ backend.ImageStore = (*Backend)(nil)

// HasImage implements backend.ImageStore.
func (b *Backend) HasImage(ctx context.Context, ref string) (bool, error) {
	return b.images.Has(ref, func() (bool, error) { return b.exists(ctx, ref) })
}

// ImageID implements backend.ImageStore.
func (b *Backend) ImageID(ctx context.Context, ref string) (string, error) {
	i, err := b.api.ImageInspect(ctx, ref)
	err = fault("look at image "+ref, err)
	if errors.Is(err, backend.ErrImage) || errors.Is(err, backend.ErrNotFound) {
		return "", nil
	}
	return i.ID, err
}

// Images implements backend.ImageStore. Docker's list does not say what is used, so the containers are asked for their images.
func (b *Backend) Images(ctx context.Context) ([]backend.Image, error) {
	containers, err := b.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fault("list containers", err)
	}
	used := map[string]bool{}
	for _, c := range containers.Items {
		used[c.ImageID] = true
	}
	found, err := b.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, fault("list images", err)
	}
	out := make([]backend.Image, 0, len(found.Items))
	for _, i := range found.Items {
		names := slices.DeleteFunc(slices.Clone(i.RepoTags), func(n string) bool { return strings.Contains(n, "<none>") })
		out = append(out, backend.Image{ID: i.ID, Names: names, SizeMB: i.Size >> 20, InUse: used[i.ID] || i.Containers > 0})
	}
	return out, nil
}

// RemoveImage implements backend.ImageStore.
func (b *Backend) RemoveImage(ctx context.Context, refOrID string) error {
	return b.images.Remove(refOrID, func() error {
		_, err := b.api.ImageRemove(ctx, refOrID, client.ImageRemoveOptions{PruneChildren: true})
		err = fault("remove image "+refOrID, err)
		if errors.Is(err, backend.ErrImage) || errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		return err
	})
}
