package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// job is a task in flight. The task itself is as it was first delivered here, so its attempt
// says what may exist on the host; latest is the attempt that the answer belongs to, and lease the
// end of its lease.
type job struct {
	task   protocol.Task
	mu     sync.Mutex
	latest int
	lease  time.Time
}

func (j *job) attempt() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.latest
}

// taskTable holds the tasks in flight by ID, until their answers are delivered.
type taskTable struct {
	mu   sync.Mutex
	jobs map[string]*job
	left map[string]time.Time // tasks left unanswered on purpose, and when their leases end
}

func newTaskTable() *taskTable {
	return &taskTable{jobs: map[string]*job{}, left: map[string]time.Time{}}
}

// held names the tasks that the controller must not think lost: those in flight, and those that
// are left to their lease, so that what the host is unsure of is not asked of it again at once.
func (t *taskTable) held(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.left, func(_ string, until time.Time) bool { return !now.Before(until) })
	return slices.Sorted(func(yield func(string) bool) {
		for id := range t.jobs {
			if !yield(id) {
				return
			}
		}
		for id := range t.left {
			if !yield(id) {
				return
			}
		}
	})
}

// begin adds a task; fresh is false when it is in flight, and then only its attempt is taken.
func (t *taskTable) begin(task protocol.Task) (j *job, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.left, task.ID)
	if j, ok := t.jobs[task.ID]; ok {
		j.mu.Lock()
		if task.Attempt > j.latest {
			j.latest, j.lease = task.Attempt, task.LeaseUntil
		}
		j.mu.Unlock()
		return j, false
	}
	j = &job{task: task, latest: task.Attempt, lease: task.LeaseUntil}
	t.jobs[task.ID] = j
	return j, true
}

// end forgets a task, unless it was redelivered after the attempt that was answered.
func (t *taskTable) end(j *job, answered int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.attempt() != answered {
		return false
	}
	delete(t.jobs, j.task.ID)
	return true
}

// leave forgets a task that is left unanswered until its lease ends.
func (t *taskTable) leave(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.mu.Lock()
	t.left[j.task.ID] = j.lease
	j.mu.Unlock()
	delete(t.jobs, j.task.ID)
}

// drop forgets a task whose answer could not be delivered.
func (t *taskTable) drop(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.jobs, j.task.ID)
}

func succeeded() protocol.TaskResult { return protocol.TaskResult{OK: true} }

func failed(err error) protocol.TaskResult {
	return protocol.TaskResult{Error: clip(err.Error(), maxMessage)}
}

// finish answers a job in the background.
func (a *Agent) finish(j *job, res protocol.TaskResult) {
	if !res.OK {
		a.log.Warn("task failed", "task", j.task.ID, "kind", string(j.task.Kind), "runner", j.task.RunnerID, "error", res.Error)
	}
	go func() {
		defer a.work.Done()
		a.answer(j, res)
	}()
}

// abandon leaves a job unanswered: its lease runs out and the controller offers it again.
func (a *Agent) abandon(j *job, why error) {
	a.log.Warn("task left unanswered, to be offered again", "task", j.task.ID, "kind", string(j.task.Kind),
		"runner", j.task.RunnerID, "error", why)
	a.tasks.leave(j)
	a.work.Done()
}

// decline turns a job away because the agent is stopping. A create that no earlier delivery
// can have begun is answered, so that the controller need not wait for its lease to run out.
func (a *Agent) decline(j *job) {
	why := errors.New("the host's agent stopped before this could begin")
	if (j.task.Kind == protocol.TaskCreate && j.task.Attempt <= 1) || j.task.Kind == protocol.TaskPrewarm {
		a.finish(j, failed(why))
		return
	}
	a.abandon(j, why)
}

// answer delivers a result until the controller has taken it, or will never take it.
func (a *Agent) answer(j *job, res protocol.TaskResult) {
	ctx, cancel := context.WithTimeout(a.deliver, ResultTimeout)
	defer cancel()
	retry := newRetry(RetryMin, RetryMax)
	for {
		attempt := j.attempt()
		res.TaskID, res.Attempt = j.task.ID, attempt
		err := a.call(ctx, func(ctx context.Context, cred protocol.Credential) error {
			return a.cfg.Controller.Result(ctx, cred, res)
		})
		switch {
		case err == nil, errors.Is(err, protocol.ErrConflict), errors.Is(err, protocol.ErrInvalid):
			if err != nil {
				a.log.Info("the controller did not take the answer", "task", j.task.ID, "attempt", attempt, "error", err)
			}
			if a.tasks.end(j, attempt) {
				return
			}
			continue // redelivered in the meantime: the newer delivery needs its answer too
		case ctx.Err() != nil:
			a.tasks.drop(j)
			return
		case errors.Is(err, protocol.ErrUnauthorized):
			continue // the next call waits until there is a credential again
		}
		if !sleep(ctx, retry.next()) {
			a.tasks.drop(j)
			return
		}
	}
}

// waitFor waits for wg, at most d; it says whether all were done.
func waitFor(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
