package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// usage holds the latest sample of every living runner. A sample that failed leaves the one
// before in place, with its own time on it.
type usage struct {
	mu sync.Mutex
	by map[string]sample
}

type sample struct {
	usage protocol.RunnerUsage
	cpu   time.Duration // CPU time used since start, at usage.At
}

func newUsage() *usage { return &usage{by: map[string]sample{}} }

// note takes a sample; the CPU in use is the mean since the sample before, or since start.
func (u *usage) note(t tracked, s backend.Stats) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, used := t.startedAt, s.CPUTime
	if prev, ok := u.by[t.id]; ok && prev.cpu <= s.CPUTime && prev.usage.At.Before(s.At) {
		since, used = prev.usage.At, s.CPUTime-prev.cpu
	}
	cpus := 0.0
	if span := s.At.Sub(since); span > 0 && !since.IsZero() {
		cpus = used.Seconds() / span.Seconds()
	}
	u.by[t.id] = sample{
		usage: protocol.RunnerUsage{RunnerID: t.id, At: s.At, CPUs: cpus, MemoryMB: s.MemoryMB},
		cpu:   s.CPUTime,
	}
}

// keep forgets every runner that is not among ts.
func (u *usage) keep(ts []tracked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.by {
		if !slices.ContainsFunc(ts, func(t tracked) bool { return t.id == id }) {
			delete(u.by, id)
		}
	}
}

// all returns the samples in the order of runner IDs.
func (u *usage) all() []protocol.RunnerUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	var us []protocol.RunnerUsage
	for _, s := range u.by {
		us = append(us, s.usage)
	}
	slices.SortFunc(us, func(x, y protocol.RunnerUsage) int { return cmp.Compare(x.RunnerID, y.RunnerID) })
	return us
}

// sampleLoop samples the running runners every SampleInterval, whatever the sweep does.
func (a *Agent) sampleLoop(ctx context.Context) {
	tick := time.NewTicker(SampleInterval) // a pass is shorter, so none is skipped
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.samplePass(ctx)
		}
	}
}

// samplePass takes one sample of every living runner, SampleConcurrency at once.
func (a *Agent) samplePass(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, SamplePass)
	defer cancel()
	ts := a.fleet.alive()
	a.usage.keep(ts)
	var g errgroup.Group
	g.SetLimit(SampleConcurrency)
	for _, t := range ts {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
			defer cancel()
			s, err := a.byName[t.backend].Stats(ctx, t.workload)
			if err != nil {
				a.log.Debug("cannot sample a runner", "runner", t.id, "error", err)
				return nil
			}
			a.usage.note(t, s)
			return nil
		})
	}
	_ = g.Wait() // no sample's failure is the pass's
}
