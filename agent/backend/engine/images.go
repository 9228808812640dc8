package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// presentFor is how long an image that was seen is believed to be there.
const presentFor = time.Minute

// Images remember which images an engine has. Now, the clock, is set before the first use.
type Images struct {
	Now func() time.Time

	mu   sync.Mutex
	seen map[string]time.Time
}

// Prepare makes image present, by policy. What was seen present within the last minute is not
// asked for again, unless the policy is always. pull is one that goes through Pull.
func (i *Images) Prepare(image, policy string, exists func() (bool, error), pull func() error) error {
	if policy == backend.PullAlways {
		return pull()
	}
	there, err := i.Has(image, exists)
	switch {
	case err != nil:
		return err
	case there:
		return nil
	case policy == backend.PullNever:
		return fmt.Errorf("image %s is not on this host and the pull policy is never: load it, or let it be pulled: %w", image, backend.ErrImage)
	}
	return pull()
}

// Has says whether image is there; what was seen within the last minute is not asked for again.
func (i *Images) Has(image string, exists func() (bool, error)) (bool, error) {
	i.mu.Lock()
	seen := i.seen[image]
	i.mu.Unlock()
	if !seen.IsZero() && i.Now().Sub(seen) < presentFor {
		return true, nil
	}
	there, err := exists()
	if err == nil && there {
		i.saw(image)
	}
	return there, err
}

// Remove forgets that image was seen, before and after it is removed: a look in between may have seen it again.
func (i *Images) Remove(image string, remove func() error) error {
	i.forget(image)
	defer i.forget(image)
	return remove()
}

func (i *Images) forget(image string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.seen, image)
}

// Pull notes what becomes of a pull. An error of it is ErrImage, but when the engine did not
// answer or the caller gave up.
func (i *Images) Pull(image string, pull func() error) error {
	i.forget(image)
	err := pull()
	switch {
	case err == nil:
		i.saw(image)
		return nil
	case errors.Is(err, backend.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrImage, err)
}

func (i *Images) saw(image string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = map[string]time.Time{}
	}
	i.seen[image] = i.Now()
}
