package podman

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/engine"
)

// Stats samples a running workload: from the kernel when the container is on this machine,
// which costs next to nothing, and from the engine otherwise.
func (b *Backend) Stats(ctx context.Context, id string) (backend.Stats, error) {
	if s, ok := b.samples.Known(id); ok {
		return s, nil
	}
	ctx, err := b.dial(ctx)
	if err != nil {
		return backend.Stats{}, err
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
	if f, err := b.features(ctx); err == nil && f.info.Rootless && !f.info.CgroupV2 {
		return backend.Stats{}, fmt.Errorf("cannot sample container %s: without root nothing is counted for one container on version 1 cgroups", engine.Short(id))
	}
	s, err = b.ask(ctx, data.ID)
	if err != nil {
		return backend.Stats{}, errors.Join(err, local)
	}
	return s, nil
}

// ask the engine. Podman 4 answers 500 where it cannot read a cgroup.
func (b *Backend) ask(ctx context.Context, id string) (backend.Stats, error) {
	reports, err := containers.Stats(ctx, []string{id}, new(containers.StatsOptions).WithStream(false))
	if err != nil {
		return backend.Stats{}, fault("sample container "+engine.Short(id), err)
	}
	var out backend.Stats
	err = fmt.Errorf("cannot sample container %s: the engine said nothing", engine.Short(id))
	for report := range reports { // read to the end, or the bindings' goroutine stays
		if report.Error != nil {
			err = fault("sample container "+engine.Short(id), report.Error)
			continue
		}
		for _, s := range report.Stats {
			out = backend.Stats{
				At: b.now(), CPUTime: time.Duration(s.CPUNano), MemoryMB: int64(s.MemUsage >> 20),
			}
			err = nil
		}
	}
	return out, err
}
