package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// diskUse is how full a filesystem is.
type diskUse struct{ totalMB, freeMB int64 }

// percent is the used share, rounded down; 0 when nothing is known.
func (d diskUse) percent() int64 {
	if d.totalMB <= 0 {
		return 0
	}
	return (d.totalMB - min(max(d.freeMB, 0), d.totalMB)) * 100 / d.totalMB
}

// storedImage is an image of an engine, and what decides whether it may go.
type storedImage struct {
	id       string
	refs     []string // the names under which it was fetched; none for one whose name has moved to a newer image
	sizeMB   int64
	ours     bool // this host's agent fetched it for runners, and nobody has given it a name of his own
	inUse    bool // a container is made of it, or a create is about to make one
	lastUsed time.Time
}

// evictions says which images to remove, in that order, so that a filesystem which is fuller than EvictAbove comes down to
// EvictDownTo: those that a newer one of their name has replaced, then those whose use is longest ago. It never names an image
// that is not ours, that is in use, or (but for replaced ones) that was used within keep. Images share layers, so what a
// removal frees may be less than the sizes say: whoever carries this out measures in between.
func evictions(d diskUse, images []storedImage, now time.Time, keep time.Duration) []storedImage {
	if d.percent() < EvictAbove {
		return nil
	}
	var can []storedImage
	for _, i := range images {
		if i.ours && !i.inUse && (len(i.refs) == 0 || now.Sub(i.lastUsed) >= keep) {
			can = append(can, i)
		}
	}
	slices.SortFunc(can, func(x, y storedImage) int {
		return cmp.Or(cmp.Compare(min(len(x.refs), 1), min(len(y.refs), 1)), x.lastUsed.Compare(y.lastUsed), cmp.Compare(x.id, y.id))
	})
	for n := range can {
		if d.percent() <= EvictDownTo {
			return can[:n]
		}
		d.freeMB += can[n].sizeMB
	}
	return can
}

// evictLoop makes room when a heartbeat found an engine's storage nearly full.
func (a *Agent) evictLoop(ctx context.Context) {
	for a.evictNow.wait(ctx, time.Hour) {
		for _, b := range a.backends {
			if store, ok := b.(backend.ImageStore); ok {
				a.evict(ctx, b.Name(), store)
			}
		}
	}
}

// evict makes room in one engine's storage.
func (a *Agent) evict(ctx context.Context, name string, store backend.ImageStore) {
	d, ok := a.storageUse(name)
	if !ok || d.percent() < EvictAbove {
		return
	}
	images, err := a.stored(ctx, name, store)
	if err != nil {
		a.log.Warn("cannot look for images to evict", "backend", name, "error", err)
		return
	}
	for _, i := range evictions(d, images, a.now(), a.cfg.ImageKeep) {
		if d, ok = a.storageUse(name); !ok || d.percent() <= EvictDownTo || ctx.Err() != nil {
			return
		}
		a.evictOne(ctx, name, store, i, d)
	}
}

// evictOne takes our names off an image, which deletes it, or deletes one that has no name.
func (a *Agent) evictOne(ctx context.Context, name string, store backend.ImageStore, i storedImage, d diskUse) {
	ctx, cancel := context.WithTimeout(ctx, EvictTimeout)
	defer cancel()
	var err error
	if len(i.refs) == 0 {
		err = store.RemoveImage(ctx, i.id)
	}
	for _, ref := range i.refs {
		done, ok := a.images.remove(imageKey{name, ref})
		if !ok {
			return // a create wants it now
		}
		err = store.RemoveImage(ctx, ref)
		done(err == nil)
		if err != nil {
			break
		}
	}
	if err != nil {
		a.log.Info("an image could not be evicted", "backend", name, "image", i.id, "names", i.refs, "error", err)
		return
	}
	a.log.Info("evicted an image because the disk is nearly full", "backend", name, "image", i.id, "names", i.refs,
		"used_percent", d.percent(), "size_mb", i.sizeMB)
}

// stored lists an engine's images with what is known of them.
func (a *Agent) stored(ctx context.Context, name string, store backend.ImageStore) ([]storedImage, error) {
	ctx, cancel := context.WithTimeout(ctx, EvictTimeout)
	defer cancel()
	named := map[string][]string{} // by ID, the names under which we fetched what has them now
	for _, ref := range a.images.refs(name) {
		id, err := store.ImageID(ctx, ref)
		if err != nil {
			return nil, err
		}
		if a.images.still(imageKey{name, ref}, id) {
			named[id] = append(named[id], ref)
		}
	}
	all, err := store.Images(ctx)
	if err != nil {
		return nil, err
	}
	present := map[string]bool{}
	var out []storedImage
	for _, i := range all {
		present[i.ID] = true
		s := storedImage{id: i.ID, refs: named[i.ID], sizeMB: i.SizeMB, inUse: i.InUse}
		if len(s.refs) == 0 {
			s.ours = len(i.Names) == 0 && a.images.replaced(name, i.ID)
		} else {
			s.ours = len(i.Names) <= len(s.refs) // one more would be somebody else's
		}
		for _, ref := range s.refs {
			last, pinned := a.images.seen(imageKey{name, ref}, i.InUse)
			s.inUse = s.inUse || pinned
			if last.After(s.lastUsed) {
				s.lastUsed = last
			}
		}
		out = append(out, s)
	}
	a.images.forgetReplaced(name, present)
	return out, nil
}
