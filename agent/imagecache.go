package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// useSaved is how stale the last use in the file may be: a use is not worth a write each time.
const useSaved = 5 * time.Minute

// imageCache remembers which images this host's agent fetched for runners, across restarts, and when each was last used. Only
// those are ever evicted: what the engine had already belongs to the host's owner. An image is written down before it
// is fetched, so that a crash leaves no image that nobody knows of.
type imageCache struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	known map[imageKey]*fetched
}

// imageKey is a name on an engine.
type imageKey struct{ backend, ref string }

// fetched is what is known of one image.
type fetched struct {
	lastUsed time.Time
	saved    time.Time // lastUsed in the file
	id       string    // of the image that we fetched last; "" until that is known
	old      []string  // IDs that it replaced and that may still be there
	users    int       // creates under way
	removing chan struct{}
}

// savedImage is fetched in the file.
type savedImage struct {
	Backend  string    `json:"backend"`
	Ref      string    `json:"ref"`
	LastUsed time.Time `json:"last_used"`
	ID       string    `json:"id,omitempty"`
	Replaced []string  `json:"replaced,omitempty"`
}

// imagesPath is the cache's file beside the state file.
func imagesPath(statePath string) string {
	return strings.TrimSuffix(statePath, ".json") + "-images.json"
}

func newImageCache(path string, now func() time.Time) *imageCache {
	return &imageCache{path: path, now: now, known: map[imageKey]*fetched{}}
}

// load reads the file; one that is not there is an empty cache.
func (c *imageCache) load() error {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []savedImage
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return fmt.Errorf("cannot read the list of fetched images: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range list {
		c.known[imageKey{s.Backend, s.Ref}] = &fetched{lastUsed: s.LastUsed, saved: s.LastUsed, id: s.ID, old: s.Replaced}
	}
	return nil
}

// save writes the file. The caller holds mu.
func (c *imageCache) save() error {
	list := []savedImage{}
	for k, f := range c.known {
		f.saved = f.lastUsed
		list = append(list, savedImage{k.backend, k.ref, f.lastUsed, f.id, f.old})
	}
	slices.SortFunc(list, func(x, y savedImage) int {
		return strings.Compare(x.Backend+"\x00"+x.Ref, y.Backend+"\x00"+y.Ref)
	})
	data, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		err = writeWhole(c.path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot write the list of fetched images: %w", err)
	}
	return nil
}

// imageUse is a use of an image under way.
type imageUse struct {
	ours       bool   // the image is one that we fetched, or are about to
	fetch      bool   // it was not there
	theirs     string // ID of an image of the owner's that a pull may replace by one of ours
	end, abort func() // exactly one is called; abort when it could not be had
}

// beginUse keeps an image from being evicted, and notes whose it is before it is fetched.
func (a *Agent) beginUse(ctx context.Context, b backend.Backend, image, policy string) (imageUse, error) {
	none := imageUse{end: func() {}, abort: func() {}}
	store, ok := b.(backend.ImageStore)
	if !ok {
		return none, nil
	}
	key := imageKey{b.Name(), image}
	use, ours, err := a.images.use(ctx, key)
	if err != nil {
		return none, err
	}
	there, err := store.HasImage(ctx, image)
	switch {
	case err != nil && ours:
		use.end()
		return none, err
	case err != nil:
		return none, err
	case ours:
		use.fetch = !there
		return use, nil
	case there && policy == backend.PullAlways:
		none.theirs, err = store.ImageID(ctx, image)
		return none, err
	case there || policy == backend.PullNever:
		return none, nil
	}
	use, err = a.images.add(key)
	if err != nil {
		a.log.Warn("an image that is about to be fetched could not be written down; after a restart it is not evicted", "image", image, "error", err)
	}
	return use, nil
}

// noteFetched notes which image has the name now, when it may be another than before.
func (a *Agent) noteFetched(ctx context.Context, b backend.Backend, image, policy string, use imageUse) {
	store, ok := b.(backend.ImageStore)
	if !ok || !use.fetch && policy != backend.PullAlways {
		return
	}
	id, err := store.ImageID(ctx, image)
	if err == nil && id != "" && id != use.theirs {
		err = a.images.is(imageKey{b.Name(), image}, id)
	}
	if err != nil {
		a.log.Warn("cannot note which image was fetched", "image", image, "error", err)
	}
}

// use begins a use of an image that was fetched by us; ok is false for any other. It waits while the image is being removed.
func (c *imageCache) use(ctx context.Context, key imageKey) (u imageUse, ok bool, err error) {
	for {
		c.mu.Lock()
		f := c.known[key]
		if f == nil {
			c.mu.Unlock()
			return u, false, nil
		}
		if f.removing == nil {
			u := c.begin(f)
			if f.lastUsed.Sub(f.saved) >= useSaved {
				_ = c.save() // the next one tries again
			}
			c.mu.Unlock()
			return u, true, nil
		}
		gone := f.removing
		c.mu.Unlock()
		select {
		case <-gone:
		case <-ctx.Done():
			return u, false, ctx.Err()
		}
	}
}

// add begins the first use of an image that is about to be fetched. It does so even if that cannot be written down.
func (c *imageCache) add(key imageKey) (imageUse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[key]
	if f == nil {
		f = &fetched{}
		c.known[key] = f
	}
	u := c.begin(f)
	u.fetch = true
	u.abort = func() {
		u.end()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.known[key] == f && f.users == 0 && f.id == "" && len(f.old) == 0 {
			delete(c.known, key)
			_ = c.save()
		}
	}
	return u, c.save()
}

// begin counts a user. The caller holds mu.
func (c *imageCache) begin(f *fetched) imageUse {
	f.users++
	f.lastUsed = c.now()
	end := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.users--
		f.lastUsed = c.now()
	}
	return imageUse{ours: true, end: end, abort: end}
}

// is notes that a name is an image of that ID now, which we fetched.
func (c *imageCache) is(key imageKey, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[key]
	if f == nil {
		f = &fetched{lastUsed: c.now()}
		c.known[key] = f
	}
	if f.id == id {
		return nil
	}
	f.old = slices.DeleteFunc(f.old, func(x string) bool { return x == id })
	if f.id != "" {
		f.old = append(f.old, f.id)
	}
	f.id = id
	return c.save()
}

// refs are the names on an engine.
func (c *imageCache) refs(backendName string) (refs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.known {
		if k.backend == backendName {
			refs = append(refs, k.ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// still says whether the image of that ID, which has the name now, is the one that we fetched under it. When somebody else has
// taken it away or put another in its place, the name is not ours any more.
func (c *imageCache) still(key imageKey, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[key]
	switch {
	case f == nil:
		return false
	case id != "" && (f.id == "" && len(f.old) == 0 || f.id == id):
		return true
	case f.users == 0 && f.removing == nil:
		c.lose(key, f)
	}
	return false
}

// seen returns when an image was last used, which is now if it is in use, and whether a create is about to use it.
func (c *imageCache) seen(key imageKey, inUse bool) (lastUsed time.Time, pinned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[key]
	if f == nil {
		return c.now(), true // it has only now become somebody else's
	}
	if inUse {
		f.lastUsed = c.now()
	}
	return f.lastUsed, f.users > 0
}

// replaced says whether an image without a name is one that we fetched and that a newer one has replaced.
func (c *imageCache) replaced(backendName, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, f := range c.known {
		if k.backend == backendName && slices.Contains(f.old, id) {
			return true
		}
	}
	return false
}

// forgetReplaced drops replaced images that are gone, and with the last of them a name that is gone too.
func (c *imageCache) forgetReplaced(backendName string, present map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for k, f := range c.known {
		if k.backend != backendName || len(f.old) == 0 {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(f.old), func(id string) bool { return !present[id] })
		changed = changed || len(kept) != len(f.old)
		f.old = kept
		if f.id == "" && len(kept) == 0 && f.users == 0 && f.removing == nil {
			delete(c.known, k)
		}
	}
	if changed {
		_ = c.save()
	}
}

// lose notes that a name is not ours any more; what it replaced still is. The caller holds mu.
func (c *imageCache) lose(key imageKey, f *fetched) {
	if f.id = ""; len(f.old) == 0 {
		delete(c.known, key)
	}
	_ = c.save() // at worst the next start finds out again
}

// remove reserves an image for its removal, unless a create uses it: creates that want it wait until done is called, with
// whether it is gone.
func (c *imageCache) remove(key imageKey) (done func(gone bool), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[key]
	if f == nil || f.users > 0 || f.removing != nil {
		return nil, false
	}
	f.removing = make(chan struct{})
	return func(gone bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(f.removing)
		f.removing = nil
		if gone {
			c.lose(key, f)
		}
	}, true
}
