package process

import (
	"context"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// CreateOnly is a Create that is cut off before the start.
func (b *Backend) CreateOnly(ctx context.Context, spec backend.Spec) error {
	_, err := b.create(ctx, spec, false)
	return err
}

// Await waits until a workload has ended.
func Await(ctx context.Context, b *Backend, id string) (backend.Workload, error) {
	s, err := b.read(id)
	if err != nil {
		return backend.Workload{}, err
	}
	if _, err := s.await(ctx, time.Minute); err != nil {
		return backend.Workload{}, err
	}
	return b.Inspect(ctx, id)
}

// ShimPID is the process number of a workload's shim.
func ShimPID(t *testing.T, b *Backend, id string) int {
	t.Helper()
	s, err := b.read(id)
	if err != nil {
		t.Fatal(err)
	}
	return s.started.Shim.PID
}
