package store

import (
	"context"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

const taskColumns columns = `id, host_id, runner_id, kind, payload, state, attempt, result,
	created_at, offered_at, lease_until, ended_at`

const (
	selectTask = "SELECT " + string(taskColumns) + " FROM tasks"
	endedTask  = "state IN ('done', 'failed', 'cancelled')"
)

func (s *Store) scanTask(row scanner) (t Task, err error) {
	var sealed string
	if err := row.Scan(&t.ID, &t.HostID, &t.RunnerID, &t.Kind, &sealed, &t.State, &t.Attempt, &t.Result,
		intoTime(&t.CreatedAt), intoTime(&t.OfferedAt), intoTime(&t.LeaseUntil), intoTime(&t.EndedAt)); err != nil {
		return t, err
	}
	t.Payload, err = s.unseal(sealed, sealedPayload.of(t.ID))
	return t, err
}

// queued is a task and whether it is a new one.
type queued struct {
	task  Task
	fresh bool
}

// EnqueueTask writes a pending task, with a new ID unless it has one. When a task of that kind is
// outstanding (pending or leased) for the runner, that one is returned with false and nothing is
// written. ErrNotFound when there is no such host.
func (s *Store) EnqueueTask(ctx context.Context, task Task) (Task, bool, error) {
	now := s.now()
	q, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (q queued, err error) {
		if task.RunnerID != "" {
			same, err := all(ctx, t, s.scanTask, selectTask+" WHERE runner_id = ? AND kind = ? AND state IN ('pending', 'leased')", task.RunnerID, task.Kind)
			if err != nil {
				return q, err
			}
			if len(same) > 0 {
				return queued{task: same[0]}, nil
			}
		}
		q.task, err = s.insertTask(ctx, t, task, now)
		q.fresh = true
		return q, err
	})
	return q.task, q.fresh, errorf(err, "queue a %s task", task.Kind)
}

// insertTask writes a pending task behind all others.
func (s *Store) insertTask(ctx context.Context, t *tx, task Task, now time.Time) (Task, error) {
	if task.ID == "" {
		task.ID = NewID(idTask)
	}
	task.State, task.Attempt, task.Result, task.CreatedAt = TaskPending, 0, "", now
	task.OfferedAt, task.LeaseUntil, task.EndedAt = time.Time{}, time.Time{}, time.Time{}
	sealed, err := s.seal(task.Payload, sealedPayload.of(task.ID))
	if err != nil {
		return Task{}, err
	}
	_, err = exec(ctx, t, "INSERT INTO tasks (seq, "+string(taskColumns)+`) VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM tasks), `+
		marks(len(taskColumns.names()))+")",
		task.ID, task.HostID, task.RunnerID, task.Kind, sealed, string(task.State), 0, "", micros(now), 0, 0, 0)
	return task, err
}

// EnqueueCreate records the minted registration on the runner and writes its create task, in one
// transaction. The task gets the runner's ID, its host unless it names one, and the create kind.
// ErrConflict when the runner is not provisioning any more or has had a create task, whatever
// became of that.
func (s *Store) EnqueueCreate(ctx context.Context, runnerID string, githubID int64, task Task) (Task, error) {
	now := s.now()
	task.RunnerID, task.Kind = runnerID, string(protocol.TaskCreate)
	task, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (Task, error) {
		task := task
		r, err := one(ctx, t, scanRunner, selectRunner+" WHERE id = ?", runnerID)
		if err != nil {
			return task, err
		}
		if r.State != RunnerProvisioning {
			return task, fmt.Errorf("%w: the runner is %s", ErrConflict, r.State)
		}
		fill(&task.HostID, r.HostID)
		if err := execOne(ctx, t, "UPDATE runners SET github_id = ? WHERE id = ?", githubID, runnerID); err != nil {
			return task, err
		}
		return s.insertTask(ctx, t, task, now) // a second create breaks tasks_one_create
	})
	return task, errorf(err, "queue the create of runner %s", runnerID)
}

// Task returns one task. The payload of an ended task is gone. ErrNotFound when there is none.
func (s *Store) Task(ctx context.Context, id string) (Task, error) {
	t, err := one(ctx, s.readers, s.scanTask, selectTask+" WHERE id = ?", id)
	return t, errorf(err, "read task %s", id)
}

// Tasks returns a runner's tasks in their order of arrival.
func (s *Store) Tasks(ctx context.Context, runnerID string) ([]Task, error) {
	list, err := all(ctx, s.readers, s.scanTask, selectTask+" WHERE runner_id = ? ORDER BY seq", runnerID)
	return list, errorf(err, "list the tasks of runner %s", runnerID)
}

// CancelTasks cancels a runner's pending tasks of the given kinds, of all kinds when none is
// given, and returns how many. A leased task is with the agent and cannot be cancelled.
func (s *Store) CancelTasks(ctx context.Context, runnerID string, kinds ...string) (int, error) {
	now := s.now()
	n, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (int, error) { return cancelTasks(ctx, t, runnerID, kinds, now) })
	return n, errorf(err, "cancel the tasks of runner %s", runnerID)
}

func cancelTasks(ctx context.Context, t *tx, runnerID string, kinds []string, now time.Time) (int, error) {
	var w where
	w.add("runner_id = ?", runnerID)
	w.add("state IN ('pending')")
	if len(kinds) > 0 {
		w.in("kind", anys(kinds))
	}
	return exec(ctx, t, "UPDATE tasks SET state = 'cancelled', payload = '', lease_until = 0, ended_at = ?"+w.String(),
		append([]any{micros(now)}, w.args...)...)
}

// FailHostTasks fails every outstanding task of a host, which is not coming back, and returns how many.
func (s *Store) FailHostTasks(ctx context.Context, hostID, why string) (int, error) {
	now := s.now()
	n, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (int, error) { return failHostTasks(ctx, t, hostID, why, now) })
	return n, errorf(err, "fail the tasks of host %s", hostID)
}

func failHostTasks(ctx context.Context, t *tx, hostID, why string, now time.Time) (int, error) {
	return exec(ctx, t, `UPDATE tasks SET state = 'failed', payload = '', result = ?, lease_until = 0, ended_at = ?
		WHERE host_id = ? AND state IN ('pending', 'leased')`, why, micros(now), hostID)
}
