package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// errSuperseded ends a create whose runner was told to stop or to go.
var errSuperseded = errors.New("the runner was stopped or removed before it had started")

// startQueue admits creates and prewarms: first in, first out, creates before prewarms. What
// waits here holds nothing but its place.
type startQueue struct {
	mu       sync.Mutex
	creates  []*job
	prewarms []*job
	running  map[string]*start // creates in a slot, by runner
	changed  wake
}

// start is a create in its slot.
type start struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func newStartQueue() *startQueue {
	return &startQueue{running: map[string]*start{}, changed: newWake()}
}

// push adds a job.
func (q *startQueue) push(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.task.Kind == protocol.TaskPrewarm {
		q.prewarms = append(q.prewarms, j)
	} else {
		q.creates = append(q.creates, j)
	}
	q.changed.up()
}

// take returns the front, nil when there is none. A create counts as running from then on,
// under a context that a stop or a removal of its runner cancels.
func (q *startQueue) take(ctx context.Context) (*job, context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.creates) > 0 {
		j := q.creates[0]
		q.creates = q.creates[1:]
		ctx, cancel := context.WithCancelCause(ctx)
		q.running[j.task.RunnerID] = &start{cancel: cancel, done: make(chan struct{})}
		q.ring()
		return j, ctx
	}
	if len(q.prewarms) > 0 {
		j := q.prewarms[0]
		q.prewarms = q.prewarms[1:]
		q.ring()
		return j, ctx
	}
	return nil, nil
}

// ring wakes another worker while there is more to take. The caller holds mu.
func (q *startQueue) ring() {
	if len(q.creates)+len(q.prewarms) > 0 {
		q.changed.up()
	}
}

// leave frees the slot of a runner's create.
func (q *startQueue) leave(runnerID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.running[runnerID]; s != nil {
		delete(q.running, runnerID)
		s.cancel(nil)
		close(s.done)
	}
}

// supersede takes a runner's waiting creates out of the queue and returns them; one that runs
// is cancelled, and running closes when it has cleaned up after itself (nil for none).
func (q *startQueue) supersede(runnerID string) (waiting []*job, running <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := q.creates[:0:0]
	for _, j := range q.creates {
		if j.task.RunnerID == runnerID {
			waiting = append(waiting, j)
		} else {
			rest = append(rest, j)
		}
	}
	q.creates = rest
	if s := q.running[runnerID]; s != nil {
		s.cancel(errSuperseded)
		return waiting, s.done
	}
	return waiting, nil
}

// drain takes out everything that waits.
func (q *startQueue) drain() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := slices.Concat(q.creates, q.prewarms)
	q.creates, q.prewarms = nil, nil
	return waiting
}

// startLoop is one slot: it admits the front of the queue when no cooldown holds it, and
// carries it through, cleanup included. What it has begun runs on although ctx ends.
func (a *Agent) startLoop(ctx context.Context) {
	for {
		if hold := a.cooldown.left(); hold > 0 {
			if !sleep(ctx, hold) {
				return
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		j, jobCtx := a.starts.take(context.WithoutCancel(ctx))
		if j == nil {
			if !a.starts.changed.wait(ctx, time.Hour) {
				return
			}
			continue
		}
		if j.task.Kind == protocol.TaskPrewarm {
			a.prewarm(jobCtx, j)
			continue
		}
		a.create(jobCtx, j)
		a.starts.leave(j.task.RunnerID)
	}
}
