package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Queue says whether the fleet starts runners, and how much waits.
type Queue struct {
	Paused      bool       `json:"paused" doc:"No runner is started in the whole fleet. Idle ones still take jobs, since GitHub hands those out"`
	PausedAt    *time.Time `json:"paused_at,omitempty"`
	PausedBy    string     `json:"paused_by,omitempty"`
	PauseReason string     `json:"pause_reason,omitempty"`
	PausedPools []string   `json:"paused_pools" nullable:"false" doc:"Names of the pools that are paused on their own"`
	Queued      int        `json:"queued" doc:"Jobs that wait for a runner"`
	Waiting     int        `json:"waiting" doc:"Jobs that GitHub holds back: a deployment gate, a concurrency group"`
	InProgress  int        `json:"in_progress" doc:"Jobs that run"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Queue) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "paused_at", "paused_by", "pause_reason")
}

type (
	queueOutput struct{ Body Queue }
	pauseQueue  struct {
		Body struct {
			Reason string `json:"reason" required:"false" maxLength:"500" doc:"Why, for those who wonder"`
		}
	}
)

func addQueue(s *Server) {
	register(s, "get-queue", s.getQueue)
	register(s, "pause-queue", s.pauseQueue)
	register(s, "resume-queue", s.resumeQueue)
}

// queuePause is what the audit log shows of a pause.
type queuePause struct {
	Paused bool       `json:"paused"`
	At     *time.Time `json:"paused_at,omitempty"`
	By     string     `json:"paused_by,omitempty"`
	Reason string     `json:"pause_reason,omitempty"`
}

func viewPause(p store.QueuePause) queuePause {
	return queuePause{p.Paused(), optional(p.Since), p.By, p.Reason}
}

func (s *Server) getQueue(ctx context.Context, _ *struct{}) (*queueOutput, error) {
	p, err := s.store.QueuePause(ctx)
	if err != nil {
		return nil, err
	}
	pools, err := s.store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	n, err := s.store.JobCounts(ctx)
	q := Queue{
		Paused: p.Paused(), PausedAt: optional(p.Since), PausedBy: p.By, PauseReason: p.Reason, PausedPools: []string{},
		Queued: n[store.JobQueued], Waiting: n[store.JobWaiting], InProgress: n[store.JobInProgress],
	}
	for _, x := range pools {
		if !x.PausedAt.IsZero() {
			q.PausedPools = append(q.PausedPools, x.Name)
		}
	}
	return &queueOutput{q}, err
}

func (s *Server) pauseQueue(ctx context.Context, in *pauseQueue) (*queueOutput, error) {
	before, err := s.store.QueuePause(ctx)
	if err != nil {
		return nil, err
	}
	now := store.QueuePause{Since: before.Since, By: principal(ctx).Name, Reason: in.Body.Reason}
	if !before.Paused() {
		now.Since = s.now()
	}
	if err := s.setPause(ctx, before, now); err != nil {
		return nil, err
	}
	return s.getQueue(ctx, nil)
}

func (s *Server) resumeQueue(ctx context.Context, _ *struct{}) (*struct{}, error) {
	before, err := s.store.QueuePause(ctx)
	if err != nil {
		// What cannot be read is put right by taking it away.
		s.log.Warn("resuming a queue whose pause cannot be read", "err", err)
	}
	return nil, s.setPause(ctx, before, store.QueuePause{})
}

func (s *Server) setPause(ctx context.Context, before, now store.QueuePause) error {
	err := s.do(ctx, change{kind: "queue", id: "queue", before: viewPause(before), after: viewPause(now)}, func(ctx context.Context) error {
		return s.store.SetQueuePause(ctx, now)
	})
	if err == nil {
		s.fleet.Look()
	}
	return err
}
