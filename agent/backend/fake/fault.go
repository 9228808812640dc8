package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Op is one call of the contract.
type Op string

// The calls.
const (
	OpProbe   Op = "probe"
	OpPrepare Op = "prepare"
	OpCreate  Op = "create"
	OpList    Op = "list"
	OpInspect Op = "inspect"
	OpStop    Op = "stop"
	OpRemove  Op = "remove"
	OpLogs    Op = "logs"
	OpStats   Op = "stats"
	OpWatch   Op = "watch"
)

// Ops are all calls but Probe and Watch: what an engine that is down does not answer.
var Ops = []Op{OpPrepare, OpCreate, OpList, OpInspect, OpStop, OpRemove, OpLogs, OpStats}

// Fault breaks a call. Faults of one call are used in the order they were injected.
type Fault struct {
	// Err is what the call returns; nil lets it succeed.
	Err error
	// Times is how many calls it breaks: 0 is one, below 0 all until Mend.
	Times int
	// Took has the call take effect all the same: its answer is lost.
	Took bool
	// Hold keeps the call waiting until it is closed, or the call's context ends.
	Hold <-chan struct{}
	// Delay keeps the call waiting so long, or until its context ends.
	Delay time.Duration
	// Late has the call take effect at once and wait afterwards: its answer is old.
	Late bool
}

// Inject breaks the next calls of op.
func (b *Backend) Inject(op Op, f Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	b.faults[op] = append(b.faults[op], &f)
}

// Mend takes back every fault of these calls; of all calls when none is named.
func (b *Backend) Mend(ops ...Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(ops) == 0 {
		clear(b.faults)
	}
	for _, op := range ops {
		delete(b.faults, op)
	}
}

// Down stops the engine from answering, until Mend.
func (b *Backend) Down() {
	for _, op := range append([]Op{OpProbe, OpWatch}, Ops...) {
		b.Inject(op, Fault{Err: backend.ErrUnavailable, Times: -1})
	}
	b.BreakWatches()
}

// do runs one call: it counts it, breaks it as injected, and has its effect under the lock.
func (b *Backend) do(ctx context.Context, op Op, effect func() error) error {
	f := b.fault(op)
	if f.Late {
		b.mu.Lock()
		err := effect()
		b.mu.Unlock()
		f.wait(ctx)
		return errors.Join(err, f.Err)
	}
	f.wait(ctx)
	if ctx.Err() != nil {
		// A client cannot tell a budget that ran out from an engine that is gone.
		return fmt.Errorf("cannot ask the engine: %w: %w", backend.ErrUnavailable, ctx.Err())
	}
	if f.Err != nil && !f.Took {
		return f.Err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(effect(), f.Err)
}

// wait holds the call up as the fault says, until ctx ends.
func (f Fault) wait(ctx context.Context) {
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
		}
	}
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

func (b *Backend) fault(op Op) Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[op]++
	fs := b.faults[op]
	if len(fs) == 0 {
		return Fault{}
	}
	f := *fs[0]
	if fs[0].Times > 0 {
		if fs[0].Times--; fs[0].Times == 0 {
			b.faults[op] = fs[1:]
		}
	}
	return f
}

// enter and leave count how many creates and prepares run at once.
func (b *Backend) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy++
	b.peak = max(b.peak, b.busy)
}

func (b *Backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
}

// Exit ends a runner's workload by itself.
func (b *Backend) Exit(runnerID string, code int) { b.end(runnerID, code, false) }

// OOM has the kernel kill a runner's workload.
func (b *Backend) OOM(runnerID string) { b.end(runnerID, exitKill, true) }

func (b *Backend) end(runnerID string, code int, oom bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.runner(runnerID); it != nil && it.w.Phase != backend.Exited {
		b.exit(it, code, oom)
	}
}

// Vanish deletes a runner's workload behind everybody's back.
func (b *Backend) Vanish(runnerID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.runner(runnerID); it != nil {
		delete(b.items, it.w.ID)
		it.bump()
	}
}

// Hide has List leave a runner out, or show it again.
func (b *Backend) Hide(runnerID string, hidden bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hidden[runnerID] = hidden
}

// Stubborn has a runner ignore the stop signal until it is killed.
func (b *Backend) Stubborn(runnerID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stubborn[runnerID] = true
}

// Reboot ends everything the way a restart of the machine does: exit code 0 and no end.
func (b *Backend) Reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.w.Phase == backend.Running {
			it.w.Phase, it.w.ExitCode = backend.Exited, 0
			it.bump()
		}
	}
}

// Put adds a workload as it is, for states that no call leads to. It returns its ID.
func (b *Backend) Put(w backend.Workload, hostID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.ID == "" {
		b.next++
		w.ID = "wl" + strconv.Itoa(b.next)
	}
	if w.CreatedAt.IsZero() {
		w.CreatedAt = b.now()
	}
	b.items[w.ID] = &item{w: w, host: hostID, changed: make(chan struct{})}
	return w.ID
}

// Print appends to a runner's log.
func (b *Backend) Print(runnerID, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.runner(runnerID); it != nil {
		it.log.WriteString(text)
		it.bump()
	}
}

// SetStats sets what a sample of a runner finds.
func (b *Backend) SetStats(runnerID string, cpu time.Duration, memoryMB int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.runner(runnerID); it != nil {
		it.stats = backend.Stats{CPUTime: cpu, MemoryMB: memoryMB}
	}
}

// BreakWatches closes every event stream.
func (b *Backend) BreakWatches() {
	b.mu.Lock()
	chans := make([]chan backend.Event, 0, len(b.watchers))
	for ch := range b.watchers {
		chans = append(chans, ch)
	}
	b.mu.Unlock()
	for _, ch := range chans {
		b.unwatch(ch)
	}
}

// Calls is how often op was called.
func (b *Backend) Calls(op Op) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[op]
}

// Prepared are the images that were prepared, in order.
func (b *Backend) Prepared() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.prepared)
}

// Peak is the most creates and prepares that ran at once.
func (b *Backend) Peak() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Runner is a runner's own workload, and what it was made from.
func (b *Backend) Runner(runnerID string) (backend.Workload, backend.Spec, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.runner(runnerID); it != nil {
		return it.w, it.spec, true
	}
	return backend.Workload{}, backend.Spec{}, false
}

// Count is how many workloads there are, sidecars included.
func (b *Backend) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// runner finds a runner's own workload. The caller holds mu.
func (b *Backend) runner(runnerID string) *item {
	for _, it := range b.items {
		if it.w.RunnerID == runnerID && it.w.Role == backend.RoleRunner {
			return it
		}
	}
	return nil
}

// SetStorage sets where the engine says that it keeps its images.
func (b *Backend) SetStorage(dir string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.info.StorageDir = dir
}
