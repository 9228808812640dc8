package process

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// clockTick is the unit of the kernel's CPU times on every platform that Go runs Linux on.
const clockTick = 10 * time.Millisecond

// Stats adds up the workload's processes. CPU time of those that ended is in it once their
// parent has waited for them; memory is what each has resident, shared pages counted by each.
func (b *Backend) Stats(_ context.Context, id string) (backend.Stats, error) {
	s, err := b.read(id)
	if err != nil {
		return backend.Stats{}, err
	}
	if s.phase() != backend.Running {
		return backend.Stats{}, fmt.Errorf("cannot sample workload %s: it is not running", id)
	}
	root := s.started.Shim.PID
	if !s.started.Shim.lives() {
		root = s.started.Child.PID
	}
	out := backend.Stats{At: b.now()}
	var ticks, pages int64
	for _, pid := range append(descendants(root), root) {
		stat, err := procStat(pid)
		if err != nil {
			continue // it ended
		}
		ticks += int64(stat.UTime) + int64(stat.STime) + int64(stat.CUTime) + int64(stat.CSTime)
		if pid != root {
			pages += int64(stat.RSS)
		}
	}
	out.CPUTime = time.Duration(ticks) * clockTick
	out.MemoryMB = pages * int64(os.Getpagesize()) >> 20
	return out, nil
}
