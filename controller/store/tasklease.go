package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// taskOrder offers what frees a host before what fills it: stops and removes, creates, the rest.
const taskOrder = "CASE WHEN kind IN ('" + string(protocol.TaskStop) + "', '" + string(protocol.TaskRemove) + "') THEN 0 WHEN kind = '" +
	string(protocol.TaskCreate) + "' THEN 1 ELSE 2 END, seq"

// LeaseTask leases a host's oldest pending task, stops and removes first, then creates, then the
// rest, for as long as ttl says for its kind. It returns nil without error when there is none. No
// task is ever given to two callers.
func (s *Store) LeaseTask(ctx context.Context, hostID string, ttl func(kind string) time.Duration) (*Task, error) {
	const next = " WHERE host_id = ? AND state = 'pending' ORDER BY " + taskOrder + " LIMIT 1"
	// A look without the write lock first: most polls find nothing.
	if some, err := exists(ctx, s.readers, "SELECT id FROM tasks"+next, hostID); err != nil || !some {
		return nil, errorf(err, "lease a task of host %s", hostID)
	}
	now := s.now()
	task, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (*Task, error) {
		list, err := all(ctx, t, s.scanTask, selectTask+next, hostID)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		task := list[0]
		task.State, task.OfferedAt, task.LeaseUntil = TaskLeased, now, stamp(now.Add(ttl(task.Kind)))
		task.Attempt++
		return &task, execGuarded(ctx, t, `UPDATE tasks SET state = 'leased', attempt = ?, offered_at = ?, lease_until = ?
			WHERE id = ? AND state IN ('pending')`, task.Attempt, micros(task.OfferedAt), micros(task.LeaseUntil), task.ID)
	})
	return task, errorf(err, "lease a task of host %s", hostID)
}

const leasedToHost = " WHERE host_id = ? AND state = 'leased'"

// Released are leased tasks that are in nobody's hands: nobody need wait for their leases to end.
type Released struct {
	Requeued []Task // put back, to be offered again
	Spent    []Task // offered as often as allowed: their leases end now, and ExpireLeases gives them up
}

// Begun is what changed when another run of a host's agent began to poll.
type Begun struct {
	Previous string   // the run before; "" when there was none, or it is the same one
	Released Released // what was leased to it
}

// BeginInstance notes which run of a host's agent polls. When it is another one than before, the
// tasks that the earlier one had leased are released, maxOffers(kind) being how often one is offered.
// Nothing changes when there is no such host.
func (s *Store) BeginInstance(ctx context.Context, hostID, instance string, maxOffers func(kind string) int) (Begun, error) {
	now := s.now()
	b, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (b Begun, err error) {
		known, err := all(ctx, t, scanString, "SELECT instance FROM hosts WHERE id = ?", hostID)
		if err != nil || len(known) == 0 || known[0] == instance {
			return b, err
		}
		b.Previous = known[0]
		if err := execOne(ctx, t, "UPDATE hosts SET instance = ? WHERE id = ?", instance, hostID); err != nil {
			return b, err
		}
		b.Released, err = s.release(ctx, t, hostID, func(string) bool { return true }, maxOffers, now)
		return b, err
	})
	return b, errorf(err, "note the agent of host %s", hostID)
}

// release takes the tasks that match from the host that they are leased to.
func (s *Store) release(ctx context.Context, t *tx, hostID string, match func(id string) bool, maxOffers func(kind string) int, now time.Time) (Released, error) {
	var r Released
	list, err := all(ctx, t, s.scanTask, selectTask+leasedToHost+" ORDER BY seq", hostID)
	if err != nil {
		return r, err
	}
	for _, task := range list {
		switch {
		case !match(task.ID):
		case task.Attempt < maxOffers(task.Kind):
			err = putBack(ctx, t, &task)
			r.Requeued = append(r.Requeued, task)
		default:
			if task.LeaseUntil.After(now) { // else it is over already
				task.LeaseUntil = now
				err = execGuarded(ctx, t, "UPDATE tasks SET lease_until = ? WHERE id = ? AND state IN ('leased')", micros(now), task.ID)
			}
			r.Spent = append(r.Spent, task)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// putBack makes a leased task pending.
func putBack(ctx context.Context, t *tx, task *Task) error {
	task.State, task.LeaseUntil = TaskPending, time.Time{}
	return execGuarded(ctx, t, "UPDATE tasks SET state = 'pending', lease_until = 0 WHERE id = ? AND state IN ('leased')", task.ID)
}

// ReleaseLost releases the tasks leased to a host that its agent does not hold, and returns them:
// the answers that carried them were lost. The caller sees to it that the agent has said what it
// holds after the last of them was leased. maxOffers(kind) is how often a task is offered.
func (s *Store) ReleaseLost(ctx context.Context, hostID string, held []string, maxOffers func(kind string) int) (Released, error) {
	lost := func(id string) bool { return !slices.Contains(held, id) }
	// A look without the write lock first: nearly always nothing is lost.
	leased, err := all(ctx, s.readers, scanString, "SELECT id FROM tasks"+leasedToHost, hostID)
	if err != nil || !slices.ContainsFunc(leased, lost) {
		return Released{}, errorf(err, "find the lost tasks of host %s", hostID)
	}
	now := s.now()
	r, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (Released, error) {
		return s.release(ctx, t, hostID, lost, maxOffers, now)
	})
	return r, errorf(err, "release the lost tasks of host %s", hostID)
}

// execGuarded runs a task's transition, an UPDATE conditional on the state it leaves. It is
// ErrConflict unless exactly one row was there to make it.
func execGuarded(ctx context.Context, t *tx, query string, args ...any) error {
	n, err := exec(ctx, t, query, args...)
	if err == nil && n != 1 {
		return ErrConflict
	}
	return err
}

// answered is a task after an answer, and whether the answer ended it.
type answered struct {
	task    Task
	changed bool
}

// FinishTask ends a task as its host answers it and says whether this answer did. An answer to
// another attempt than the last one offered, or from another host, is ErrConflict; a repeated
// answer is not an error and changes nothing. An answer that comes after its lease ended counts
// as long as the task has not been offered again. The payload is returned once more and then gone.
func (s *Store) FinishTask(ctx context.Context, hostID, taskID string, attempt int, ok bool, result string) (Task, bool, error) {
	now := s.now()
	a, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (answered, error) {
		task, err := one(ctx, t, s.scanTask, selectTask+" WHERE id = ?", taskID)
		if err != nil {
			return answered{}, err
		}
		if task.HostID != hostID {
			return answered{}, fmt.Errorf("%w: it is another host's", ErrConflict)
		}
		if task.Attempt != attempt || attempt < 1 {
			return answered{}, fmt.Errorf("%w: the answer is of attempt %d and the last one offered is %d", ErrConflict, attempt, task.Attempt)
		}
		if task.State != TaskLeased && task.State != TaskPending {
			return answered{task: task}, nil
		}
		task.State = TaskFailed
		if ok {
			task.State = TaskDone
		}
		task.Result, task.EndedAt, task.LeaseUntil = result, now, time.Time{}
		return answered{task, true}, execGuarded(ctx, t, `UPDATE tasks SET state = ?, payload = '', result = ?, lease_until = 0, ended_at = ?
			WHERE id = ? AND attempt = ? AND state IN ('leased', 'pending')`, string(task.State), result, micros(now), taskID, attempt)
	})
	return a.task, a.changed, errorf(err, "finish task %s", taskID)
}

// expired is what became of the tasks whose lease ended.
type expired struct{ requeued, dropped []Task }

// ExpireLeases puts back every task whose lease has ended and that was offered fewer than
// maxOffers(kind) times, fails the rest, and returns both.
func (s *Store) ExpireLeases(ctx context.Context, maxOffers func(kind string) int) (requeued, dropped []Task, err error) {
	now := s.now()
	const due = " WHERE state = 'leased' AND lease_until <= ?"
	if some, err := exists(ctx, s.readers, "SELECT id FROM tasks"+due+" LIMIT 1", micros(now)); err != nil || !some {
		return nil, nil, errorf(err, "expire task leases")
	}
	x, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (x expired, err error) {
		list, err := all(ctx, t, s.scanTask, selectTask+due+" ORDER BY seq", micros(now))
		if err != nil {
			return x, err
		}
		for _, task := range list {
			if task.Attempt < maxOffers(task.Kind) {
				err = putBack(ctx, t, &task)
				x.requeued = append(x.requeued, task)
			} else {
				task.State, task.EndedAt, task.LeaseUntil = TaskFailed, now, time.Time{}
				task.Result = fmt.Sprintf("offered %d times and never answered", task.Attempt)
				err = execGuarded(ctx, t, `UPDATE tasks SET state = 'failed', payload = '', result = ?, lease_until = 0, ended_at = ?
					WHERE id = ? AND state IN ('leased')`, task.Result, micros(now), task.ID)
				x.dropped = append(x.dropped, task)
			}
			if err != nil {
				return x, err
			}
		}
		return x, nil
	})
	return x.requeued, x.dropped, errorf(err, "expire task leases")
}

// NextLeaseEnd returns when the next lease ends; false when no task is leased.
func (s *Store) NextLeaseEnd(ctx context.Context) (time.Time, bool, error) {
	scan := func(row scanner) (at time.Time, err error) { return at, row.Scan(intoTime(&at)) }
	list, err := all(ctx, s.readers, scan, "SELECT lease_until FROM tasks WHERE state = 'leased' ORDER BY lease_until LIMIT 1")
	if err != nil || len(list) == 0 {
		return time.Time{}, false, errorf(err, "find the next lease end")
	}
	return list[0], true, nil
}
