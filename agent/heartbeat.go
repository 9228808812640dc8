package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// heartbeatLoop says at once, and then at the pace that the controller hands out, that the
// host lives and what it measured.
func (a *Agent) heartbeatLoop(ctx context.Context) {
	retry := newRetry(RetryMin, RetryMax)
	for ctx.Err() == nil {
		hb := a.heartbeat(ctx)
		var resp protocol.HeartbeatResponse
		err := a.call(ctx, func(ctx context.Context, cred protocol.Credential) (err error) {
			resp, err = a.cfg.Controller.Heartbeat(ctx, cred, hb)
			return err
		})
		wait := time.Duration(a.interval.Load())
		switch {
		case err == nil:
			retry.reset()
			a.setInterval(resp.HeartbeatInterval)
			wait = time.Duration(a.interval.Load())
			if was := a.cordoned.Swap(resp.Cordoned); was != resp.Cordoned {
				a.log.Info("the host's cordon changed", "cordoned", resp.Cordoned)
			}
		case ctx.Err() != nil:
			return
		case errors.Is(err, protocol.ErrUnauthorized):
			continue // the next call waits until there is a credential again
		default:
			wait = min(retry.next(), wait)
			a.log.Warn("cannot send the heartbeat", "error", err, "again_in", wait)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// heartbeat measures the host.
func (a *Agent) heartbeat(ctx context.Context) protocol.Heartbeat {
	load := a.machine.Load()
	holds, counted := a.holds()
	return protocol.Heartbeat{
		Holds:             holds,
		Counted:           counted,
		Version:           a.cfg.Version,
		Host:              a.hostInfo(ctx),
		Load1:             load.Load1,
		CPUUsed:           load.CPUUsed,
		MemoryAvailableMB: load.MemoryAvailableMB,
		Usage:             a.usage.all(),
	}
}

// holds are the runners that the host has, and whether that is all of them: an engine that has not been seen since this agent
// started, or is out of sight now, may have more.
func (a *Agent) holds() (ids []string, all bool) {
	all = true
	for _, b := range a.backends {
		_, blind := a.blind.Load(b.Name())
		_, seen := a.sighted.Load(b.Name())
		all = all && seen && !blind
	}
	a.fleet.mu.Lock()
	defer a.fleet.mu.Unlock()
	return slices.Sorted(maps.Keys(a.fleet.byID)), all
}

// hostInfo describes the host. How much machine it has is the engine's answer where there is
// one, since a container is a sibling of a containerised agent and not its child. It stays
// when the engine falls silent; where none has ever answered it is what the agent's own
// cgroup allows.
func (a *Agent) hostInfo(ctx context.Context) protocol.HostInfo {
	self := a.machine.Size()
	info := protocol.HostInfo{
		OS: self.OS, Arch: self.Arch, Distro: self.Distro,
		CPUs: self.CPUs, MemoryMB: self.MemoryMB,
		Labels: maps.Clone(a.cfg.Labels),
	}
	sized := false
	if last := a.engineSize.Load(); last != nil {
		info.CPUs, info.MemoryMB = last.CPUs, last.MemoryMB
	}
	for i, p := range a.probe(ctx) {
		bi := protocol.BackendInfo{Name: a.own[i].Name()}
		p = a.forgive(bi.Name, p)
		if p.err != nil {
			bi.Error = clip(p.err.Error(), maxMessage)
		} else {
			bi.Version, bi.Rootless = p.info.Version, p.info.Rootless
			bi.CPULimit, bi.MemoryLimit = p.info.CPULimit, p.info.MemoryLimit
			if p.info.StorageDir != "" {
				a.storage.Store(bi.Name, p.info.StorageDir)
			}
			if !sized && p.info.CPUs > 0 && p.info.MemoryMB > 0 {
				sized = true
				info.CPUs, info.MemoryMB = p.info.CPUs, p.info.MemoryMB
				a.engineSize.Store(&p.info)
			}
		}
		info.Backends = append(info.Backends, bi)
	}
	d := a.fullest()
	info.DiskTotalMB, info.DiskFreeMB = d.totalMB, d.freeMB
	info.Capacity = a.cfg.Capacity
	if info.Capacity == 0 {
		info.Capacity = max(1, int(info.CPUs))
	}
	return info
}

// fullest is the fullest of the filesystems that a runner writes to: the agent's own and that of each engine's storage.
// What cannot be measured (an engine's folder that this process does not see) counts for nothing. It wakes the eviction of
// images when an engine's is nearly full.
func (a *Agent) fullest() (worst diskUse) {
	worst.totalMB, worst.freeMB = a.machine.Disk(a.cfg.WorkDir)
	for _, b := range a.backends {
		d, ok := a.storageUse(b.Name())
		if !ok {
			continue
		}
		if d.percent() >= EvictAbove {
			a.evictNow.up()
		}
		if worst.totalMB <= 0 || d.percent() > worst.percent() {
			worst = d
		}
	}
	return worst
}

// storageUse measures the filesystem of an engine's storage.
func (a *Agent) storageUse(backendName string) (d diskUse, ok bool) {
	dir, known := a.storage.Load(backendName)
	if !known {
		return d, false
	}
	d.totalMB, d.freeMB = a.machine.Disk(dir.(string)) //nolint:forcetypeassert // only strings are stored
	return d, d.totalMB > 0
}

type probed struct {
	info backend.Info
	err  error
}

// forgive takes an engine's last answer for one that did not come in time, as long as the engine lists its workloads: a machine
// that its jobs keep busy answers late (Podman runs a dozen programs to say what it is) and is not broken.
func (a *Agent) forgive(name string, p probed) probed {
	if p.err == nil {
		a.answers.Store(name, p.info)
		return p
	}
	_, blind := a.blind.Load(name)
	if last, ok := a.answers.Load(name); ok && !blind && errors.Is(p.err, context.DeadlineExceeded) {
		a.log.Info("a backend answers late", "backend", name, "error", p.err)
		return probed{info: last.(backend.Info)} //nolint:forcetypeassert // only these are stored
	}
	return p
}

// probe asks every backend of its own at once, each within ProbeTimeout.
func (a *Agent) probe(ctx context.Context) []probed {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	out := make([]probed, len(a.own))
	var wg sync.WaitGroup
	for i, b := range a.own {
		wg.Go(func() { out[i].info, out[i].err = b.Probe(ctx) })
	}
	wg.Wait()
	return out
}
