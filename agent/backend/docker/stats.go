package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stats samples a running workload: from the kernel when the container is on this machine,
// and from the engine otherwise.
func (b *Backend) Stats(ctx context.Context, id string) (backend.Stats, error) {
	if s, ok := b.samples.Known(id); ok {
		return s, nil
	}
	data, err := b.ours(ctx, id)
	if err != nil {
		return backend.Stats{}, err
	}
	if phase(data.State.Status) != backend.Running || data.State.Pid <= 0 {
		return backend.Stats{}, fmt.Errorf("cannot sample container %s: it is not running", engine.Short(id))
	}
	s, local := b.samples.Take(data.State.Pid, data.ID)
	if local == nil {
		return s, nil
	}
	if s, err = b.ask(ctx, data.ID); err != nil {
		return backend.Stats{}, errors.Join(err, local)
	}
	return s, nil
}

func (b *Backend) ask(ctx context.Context, id string) (backend.Stats, error) {
	answer, err := b.api.ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return backend.Stats{}, fault("sample container "+engine.Short(id), err)
	}
	defer func() { _ = answer.Body.Close() }()
	var s container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return backend.Stats{}, fmt.Errorf("cannot sample container %s: %w", engine.Short(id), err)
	}
	used := s.MemoryStats.Usage
	for _, cache := range []string{"inactive_file", "total_inactive_file"} {
		if n, ok := s.MemoryStats.Stats[cache]; ok && n < used {
			used -= n
			break
		}
	}
	return backend.Stats{
		At:       b.now(),
		CPUTime:  time.Duration(s.CPUStats.CPUUsage.TotalUsage),
		MemoryMB: int64(used >> 20),
	}, nil
}
