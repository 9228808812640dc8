package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/zoomies-fleet/zoomies/provider"
)

// imageMark is the mark of what machines are made from.
func (w *World) imageMark(hash string) provider.Mark {
	return provider.Mark{Fleet: w.o.Fleet, Machine: "image", Resource: imageID(hash), Nonce: hash}
}

func imageID(hash string) string { return "image-" + hash }

// imageOf is the image with that hash, complete. The caller holds mu.
func (w *World) imageOf(hash string) *thing {
	if t := w.things[imageID(hash)]; t != nil && t.found.Template && !t.found.Incomplete {
		return t
	}
	return nil
}

// stoodOn says whether a machine stands on t. The caller holds mu.
func (w *World) stoodOn(t *thing) bool {
	for _, o := range w.things {
		if t.found.Template && !o.found.Template && o.image == t.image {
			return true
		}
	}
	return false
}

// stands says whether a machine stands on an image. It is part of what Read answers.
func (w *World) stands(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.things[id] != nil && w.stoodOn(w.things[id])
}

// Import begins to make an image of a file. It is there at once, incomplete.
func (w *World) Import(ctx context.Context, hash, name string) (op string, err error) {
	by := w.imageMark(hash)
	err = w.do(ctx, Import, by.Resource, func() error {
		if w.things[by.Resource] != nil {
			return provider.ErrConflict
		}
		t := w.put(provider.Found{Resource: provider.Resource{ID: by.Resource}, Name: name, Template: true, Incomplete: true}, &by)
		t.image = hash
		w.record(Import, by, t)
		op = w.begin(Import, t, func(*operation) { t.found.Incomplete = false }).name
		return nil
	})
	return op, err
}

// EnsureImage implements provider.Imager.
func (p *Provider) EnsureImage(ctx context.Context, img provider.Image) (provider.Step, error) {
	if len(img.SHA256) != hex.EncodedLen(sha256.Size) {
		return provider.Step{}, fmt.Errorf("cannot import an image with the hash %q: %w", img.SHA256, provider.ErrInvalid)
	}
	mark := p.w.imageMark(img.SHA256)
	switch f, err := p.read(ctx, mark.Resource); {
	case errors.Is(err, provider.ErrNotFound):
	case errors.Is(err, errUnread):
		return provider.Step{}, fmt.Errorf("cannot use %s, which is being made: %w", mark.Resource, provider.ErrLocked)
	case err != nil:
		return provider.Step{}, err
	case f.Incomplete:
		return provider.Step{}, fmt.Errorf("cannot use %s, which is being made: %w", f.Resource.ID, provider.ErrLocked)
	case !f.Carries(mark):
		return provider.Step{}, fmt.Errorf("cannot use %s: %w", f.Resource.ID, provider.ErrForeign)
	default:
		return provider.Step{Done: true}, nil
	}
	if img.Open == nil {
		return provider.Step{}, fmt.Errorf("cannot import the image %s, whose file is not at hand: %w", img.SHA256, provider.ErrConflict)
	}
	if err := check(img); err != nil {
		return provider.Step{}, err
	}
	op, err := p.w.Import(ctx, img.SHA256, p.w.o.Names+"image-"+img.Name)
	return step(op, err, "importing %s", img.Name)
}

// check reads the file and compares its hash.
func check(img provider.Image) (err error) {
	file, err := img.Open()
	if err != nil {
		return fmt.Errorf("cannot open the image %s: %w: %w", img.Name, provider.ErrConflict, err)
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return fmt.Errorf("cannot read the image %s: %w: %w", img.Name, provider.ErrTransient, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != img.SHA256 {
		return fmt.Errorf("cannot use the image %s: its hash is %s and should be %s: %w", img.Name, got, img.SHA256, provider.ErrInvalid)
	}
	return nil
}

// PruneImages implements provider.Imager.
func (p *Provider) PruneImages(ctx context.Context, keep provider.Image) (provider.Step, error) {
	all, err := p.w.Index(ctx)
	if err != nil {
		return provider.Step{}, err
	}
	for _, old := range all {
		if !old.Template || old.Mark == nil || old.Mark.Nonce == keep.SHA256 || !old.Carries(p.w.imageMark(old.Mark.Nonce)) {
			continue
		}
		f, err := p.read(ctx, old.Resource.ID) // the list may be old
		switch {
		case errors.Is(err, provider.ErrNotFound):
			continue
		case err != nil:
			return provider.Step{}, err
		case !f.Carries(*old.Mark) || f.Protected || p.w.stands(f.Resource.ID):
			continue
		case f.Locked != "":
			return provider.Step{}, fmt.Errorf("cannot delete %s while %s is under way: %w", f.Resource.ID, f.Locked, provider.ErrLocked)
		}
		op, err := p.w.Destroy(ctx, *old.Mark, f.Resource.ID)
		return step(op, err, "deleting %s", f.Name)
	}
	return provider.Step{Done: true}, nil
}
