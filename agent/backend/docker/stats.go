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
	"github.com/zoomies-fleet/zoomies/agent/backend/cgroup"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stats samples a running workload: from the kernel when the container is on this machine,
// and from the engine otherwise.
func (b *Backend) Stats(ctx context.Context, id string) (backend.Stats, error) {
	b.mu.Lock()
	pid, known := b.pids[id]
	b.mu.Unlock()
	if known {
		if s, err := b.sample(pid, id); err == nil {
			return s, nil
		}
	}
	data, err := b.ours(ctx, id)
	if err != nil {
		return backend.Stats{}, err
	}
	if phase(data.State.Status) != backend.Running || data.State.Pid <= 0 {
		return backend.Stats{}, fmt.Errorf("cannot sample container %s: it is not running", engine.Short(id))
	}
	s, local := b.sample(data.State.Pid, data.ID)
	if local == nil {
		b.mu.Lock()
		b.pids[id] = data.State.Pid
		b.mu.Unlock()
		return s, nil
	}
	if s, err = b.ask(ctx, data.ID); err != nil {
		return backend.Stats{}, errors.Join(err, local)
	}
	return s, nil
}

func (b *Backend) sample(pid int, id string) (backend.Stats, error) {
	u, err := cgroup.Read(pid, id)
	if err != nil {
		return backend.Stats{}, err
	}
	return backend.Stats{At: b.now(), CPUTime: u.CPUTime, MemoryMB: u.MemoryBytes >> 20}, nil
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
