package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// QueuePause says that the whole fleet starts no runner.
type QueuePause struct {
	Since  time.Time `json:"since"` // zero while the queue is not paused
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Paused says whether the queue is paused.
func (p QueuePause) Paused() bool { return !p.Since.IsZero() }

// queuePauseSetting keeps the pause where a restart does not lose it. It is no setting of an operator's.
const queuePauseSetting = "internal.queue_paused"

// QueuePause returns how the queue is paused; a zero one while it is not.
func (s *Store) QueuePause(ctx context.Context) (QueuePause, error) {
	list, err := all(ctx, s.readers, scanString, "SELECT value FROM settings WHERE key = ?", queuePauseSetting)
	if err != nil || len(list) == 0 {
		return QueuePause{}, errorf(err, "read whether the queue is paused")
	}
	var p QueuePause
	if err := json.Unmarshal([]byte(list[0]), &p); err != nil {
		return p, fmt.Errorf("cannot read whether the queue is paused: %w; resume the queue to mend it", err)
	}
	return p, nil
}

// SetQueuePause pauses the queue, or resumes it when p is zero.
func (s *Store) SetQueuePause(ctx context.Context, p QueuePause) error {
	if !p.Paused() {
		return s.DeleteSetting(ctx, queuePauseSetting)
	}
	p.Since = stamp(p.Since)
	return s.SetSetting(ctx, queuePauseSetting, jsonText(p))
}
