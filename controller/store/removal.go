package store

import (
	"context"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// Removal is what asking for the removal of a runner's workload came to.
type Removal struct {
	Gone  bool // nothing of it is on its host: there is nothing to ask for
	Task  Task // the outstanding removal, unless Gone
	Fresh bool // this call has written it
}

// EnqueueRemove sees to it that a runner's workload goes, or is never made: it looks and writes in one transaction, so that a removal
// which is answered meanwhile is not asked for once more. A create that is not with the host is cancelled. The runner must have left
// provisioning, so that no create can be written any more.
func (s *Store) EnqueueRemove(ctx context.Context, task Task) (Removal, error) {
	now := s.now()
	task.Kind = string(protocol.TaskRemove)
	rm, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (Removal, error) {
		if _, err := cancelTasks(ctx, t, task.RunnerID, []string{string(protocol.TaskCreate)}, now); err != nil {
			return Removal{}, err
		}
		known, err := all(ctx, t, s.scanTask, selectTask+" WHERE runner_id = ? ORDER BY seq", task.RunnerID)
		if err != nil {
			return Removal{}, err
		}
		outstanding, gone := removalOf(known)
		if gone || outstanding != nil {
			return settled(outstanding), nil
		}
		fresh, err := s.insertTask(ctx, t, task, now)
		return Removal{Task: fresh, Fresh: true}, err
	})
	return rm, errorf(err, "queue the removal of runner %s", task.RunnerID)
}

func settled(outstanding *Task) Removal {
	if outstanding == nil {
		return Removal{Gone: true}
	}
	return Removal{Task: *outstanding}
}

// removalOf reads from a runner's tasks whether its removal is under way, or nothing of it can be on its host: no create was ever handed
// out, or a removal was done, and not before a create that came through late.
func removalOf(known []Task) (outstanding *Task, gone bool) {
	var create *Task
	var removed time.Time
	for i := range known {
		switch t := &known[i]; {
		case t.Kind == string(protocol.TaskCreate):
			create = t
		case t.Kind != string(protocol.TaskRemove):
		case t.State == TaskPending || t.State == TaskLeased:
			outstanding = t
		case t.State == TaskDone && t.EndedAt.After(removed):
			removed = t.EndedAt
		}
	}
	if create == nil || create.Attempt == 0 {
		return nil, true
	}
	late := create.State == TaskDone && create.EndedAt.After(removed)
	return outstanding, !removed.IsZero() && !late
}
