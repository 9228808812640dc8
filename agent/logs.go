package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// streams are the log relays in flight, by stream ID.
type streams struct {
	mu   sync.Mutex
	open map[string]context.CancelFunc
}

func newStreams() *streams { return &streams{open: map[string]context.CancelFunc{}} }

// add opens a stream; it is false when the host serves its fill, or this one already.
func (s *streams) add(id string, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.open[id]; twice || len(s.open) >= MaxLogStreams {
		return false
	}
	s.open[id] = cancel
	return true
}

// cancel ends a stream, if it is open.
func (s *streams) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.open[id]; ok {
		cancel()
		delete(s.open, id)
	}
}

// streamLogs answers the task as soon as the output is open, and then relays it until it
// ends, nobody watches any more, or the agent stops. The engine is read no faster than the
// controller takes it, so nothing piles up here.
func (a *Agent) streamLogs(j *job) {
	ctx, cancel := context.WithCancel(a.serving)
	defer cancel()
	l := j.task.Logs
	if !a.streams.add(l.Stream, cancel) {
		a.finish(j, failed(fmt.Errorf("cannot stream the runner's log: the host serves this stream already, or %d others", MaxLogStreams)))
		return
	}
	defer a.streams.cancel(l.Stream)
	b, workload, found, err := a.locate(ctx, j.task.RunnerID)
	switch {
	case err != nil:
		a.finish(j, failed(fmt.Errorf("cannot read the runner's log: %w", err)))
		return
	case !found:
		a.finish(j, failed(errors.New("cannot read the runner's log: its workload is not on the host any more")))
		return
	}
	out, err := b.Logs(ctx, workload, backend.LogOptions{Follow: l.Follow, Tail: l.Tail})
	if err != nil {
		a.finish(j, failed(fmt.Errorf("cannot read the runner's log: %w", err)))
		return
	}
	defer func() { _ = out.Close() }()
	a.finish(j, succeeded())
	cred, ok := a.session.await(ctx)
	if !ok {
		return
	}
	if err := a.cfg.Controller.SendLogs(ctx, cred, l.Stream, out); err != nil && ctx.Err() == nil {
		a.log.Info("a log relay broke off", "runner", j.task.RunnerID, "stream", l.Stream, "error", err)
		if errors.Is(err, protocol.ErrUnauthorized) {
			a.session.refuse(cred)
		}
	}
}
