package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// emptyPause is the least time between two polls that brought nothing, should the controller
// answer without waiting.
const emptyPause = 250 * time.Millisecond

// pollLoop takes tasks until ctx ends.
func (a *Agent) pollLoop(ctx context.Context) {
	retry := newRetry(RetryMin, RetryMax)
	for {
		cred, ok := a.session.await(ctx)
		if !ok {
			return
		}
		asked := a.now()
		task, err := a.cfg.Controller.Poll(protocol.WithHeld(ctx, a.tasks.held(asked)), cred, PollWait)
		if task != nil {
			// Even when ctx has ended meanwhile: the task is leased to this host.
			a.polled.Store(true)
			retry.reset()
			a.dispatch(*task)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, protocol.ErrUnauthorized):
			a.session.refuse(cred)
		case err != nil:
			wait := retry.next()
			a.log.Warn("cannot ask the controller for tasks; runners go on", "error", err, "again_in", wait)
			if !sleep(ctx, wait) {
				return
			}
		default:
			a.polled.Store(true)
			retry.reset()
			if a.now().Sub(asked) < emptyPause && !sleep(ctx, emptyPause) {
				return
			}
		}
	}
}

// dispatch begins a task. A task that is in flight already was redelivered because its lease
// ran out: it goes on and is answered as the newer delivery.
func (a *Agent) dispatch(task protocol.Task) {
	j, fresh := a.tasks.begin(task)
	log := a.log.With("task", task.ID, "kind", string(task.Kind), "runner", task.RunnerID, "attempt", task.Attempt)
	if !fresh {
		log.Info("the task is in flight already")
		return
	}
	a.work.Add(1)
	if a.stopping.Load() {
		a.decline(j)
		return
	}
	log.Debug("task begun")
	switch {
	case task.Kind == protocol.TaskCreate && task.Create != nil && task.RunnerID != "",
		task.Kind == protocol.TaskPrewarm && task.Prewarm != nil:
		a.starts.push(j)
	case task.Kind == protocol.TaskStop && task.Stop != nil && task.RunnerID != "":
		go a.lifecycleTask(j, a.stop)
	case task.Kind == protocol.TaskRemove && task.RunnerID != "":
		go a.lifecycleTask(j, a.remove)
	case task.Kind == protocol.TaskStreamLogs && task.Logs != nil && task.RunnerID != "":
		a.relays.Go(func() { a.streamLogs(j) })
	case task.Kind == protocol.TaskCancelLogs && task.Logs != nil:
		a.streams.cancel(task.Logs.Stream)
		a.finish(j, succeeded())
	default:
		a.finish(j, failed(fmt.Errorf("this host's agent (%s) cannot read a task of kind %q: update the agent", a.cfg.Version, task.Kind)))
	}
}
