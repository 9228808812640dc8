package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// lifecycleTask runs a stop or a removal in a slot of its own, whatever waits for admission.
// Shutdown cannot cancel it.
func (a *Agent) lifecycleTask(j *job, do func(context.Context, *job) error) {
	a.lifecycle <- struct{}{}
	err := do(context.Background(), j)
	<-a.lifecycle
	a.sweepNow.up()
	if err != nil {
		a.finish(j, failed(err))
		return
	}
	a.finish(j, succeeded())
}

// supersede calls off the create of a runner: a waiting one is answered without having
// touched the backend, a running one is cancelled and waited for.
func (a *Agent) supersede(ctx context.Context, runnerID string) error {
	waiting, running := a.starts.supersede(runnerID)
	for _, j := range waiting {
		a.finish(j, failed(errSuperseded))
	}
	if running == nil {
		return nil
	}
	select {
	case <-running:
		return nil
	case <-ctx.Done():
		return errors.New("cannot end the runner yet: its start is still being called off")
	}
}

// stop ends a runner gracefully. One that is not there has ended.
func (a *Agent) stop(ctx context.Context, j *job) error {
	grace := max(j.task.Stop.Grace.Duration(), 0)
	ctx, cancel := context.WithTimeout(ctx, grace+StopMargin)
	defer cancel()
	id := j.task.RunnerID
	if err := a.supersede(ctx, id); err != nil {
		return err
	}
	return a.patiently(ctx, "stop the runner", func() error {
		b, workload, found, err := a.locate(ctx, id)
		if err != nil || !found {
			return err
		}
		a.fleet.with(id, func(t *tracked) { t.stopAsked = true })
		err = b.Stop(ctx, workload, grace)
		if errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		return err
	})
}

// remove deletes a runner's workload. How it ended is looked at first, so that its exit code
// is not deleted before the controller has heard it.
func (a *Agent) remove(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, RemoveTimeout)
	defer cancel()
	id := j.task.RunnerID
	if err := a.supersede(ctx, id); err != nil {
		return err
	}
	return a.patiently(ctx, "remove the runner", func() error {
		b, workload, found, err := a.locate(ctx, id)
		if err != nil || !found {
			return err
		}
		e := a.lastWords(ctx, b, workload)
		a.fleet.with(id, func(t *tracked) { t.stopAsked, t.removing = true, true })
		if err := b.Remove(ctx, workload); err != nil && !errors.Is(err, backend.ErrNotFound) {
			a.fleet.with(id, func(t *tracked) { t.removing = false })
			return err
		}
		a.fleet.finished(id, e)
		a.fleet.removed(id)
		a.reportNow.up()
		return nil
	})
}

// lastWords is how a workload that is about to be removed ended, or that it was removed.
func (a *Agent) lastWords(ctx context.Context, b backend.Backend, workload string) ending {
	if w, err := b.Inspect(ctx, workload); err == nil && w.Phase == backend.Exited {
		return a.verdict(ctx, b, w)
	}
	return ending{state: stateRemoved, message: "The controller asked for its removal."}
}

// patiently repeats do while the engine does not answer, until ctx ends.
func (a *Agent) patiently(ctx context.Context, what string, do func() error) error {
	retry := newRetry(time.Second, 15*time.Second)
	for {
		err := do()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("cannot %s: %w", what, err)
		if !errors.Is(err, backend.ErrUnavailable) || !sleep(ctx, retry.next()) {
			return err
		}
	}
}

// locate finds a runner's workload: from what is known, else by asking every backend. It is
// only "not found" when every backend answered.
func (a *Agent) locate(ctx context.Context, id string) (b backend.Backend, workload string, found bool, err error) {
	if t, ok := a.fleet.get(id); ok && t.workload != "" {
		return a.byName[t.backend], t.workload, !t.gone, nil
	}
	var errs []error
	for _, b := range a.backends {
		w, found, err := find(ctx, b, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if found {
			a.adopt(b.Name(), w)
			return b, w.ID, true, nil
		}
	}
	return nil, "", false, errors.Join(errs...)
}

// adopt takes over a workload that a task named and this agent did not know.
func (a *Agent) adopt(backendName string, w backend.Workload) {
	a.fleet.mu.Lock()
	defer a.fleet.mu.Unlock()
	a.matchOne(backendName, w, a.now())
}
