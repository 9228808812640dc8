package process

import (
	"context"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// CreateOnly is a Create that is cut off before the start.
func (b *Backend) CreateOnly(ctx context.Context, spec backend.Spec) error {
	_, err := b.create(ctx, spec, false)
	return err
}
