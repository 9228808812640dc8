package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// logTail is how many lines of what a runner has printed already the first to watch it gets.
const logTail = 1000

// idStream begins the ID of a stream of output. It says where a host posts, and is told to that host alone.
const idStream = "str_"

// WatchLogs makes a viewer of a runner's output. Whoever comes first has the runner's host asked for it; the others join. relay.ErrFull
// when too many are watching. The caller closes the viewer.
func (c *Controller) WatchLogs(ctx context.Context, r store.Runner) (*relay.Viewer, error) {
	if end, gone := c.outputGone(r); gone {
		return relay.Over(end), nil
	}
	v, first, err := c.relay.Join(r.ID, r.HostID)
	if err != nil {
		return nil, fmt.Errorf("cannot watch runner %s: %w", r.Name, err)
	}
	if first {
		c.askForLogs(context.WithoutCancel(ctx), r.ID) // others may have joined by the time that this one leaves
	}
	return v, nil
}

// outputGone says of a runner that has ended that nothing of its output is left on its host.
func (c *Controller) outputGone(r store.Runner) (relay.End, bool) {
	if r.State.Live() || !r.Cleaned || c.now().Before(r.FinishedAt.Add(c.settings().FinishedRetention)) {
		return relay.End{}, false
	}
	what := "The runner has ended and its output is gone"
	if r.Message != "" {
		what += "; it ended because: " + r.Message
	}
	return relay.End{Reason: relay.Gone, Message: what + ". Its job's log is at GitHub; the setting agent.finished_retention keeps runners' own output for longer."}, true
}

// askForLogs asks a runner's host for its output, if somebody waits for it and nobody has asked. A runner that has not started has none:
// it is asked for when the runner's state changes.
func (c *Controller) askForLogs(ctx context.Context, runnerID string) {
	s := c.relay.Unasked(runnerID)
	if s == nil {
		return
	}
	if err := c.askHost(ctx, s); err != nil {
		c.log.Error("cannot ask a host for a runner's output", "runner", runnerID, "err", err)
		c.relay.Fail(runnerID, relay.End{Reason: relay.Failed, Message: "The controller could not ask the runner's host; its log says why."})
	}
}

// hostLost is the end of what nobody will send.
var hostLost = relay.End{Reason: relay.Failed, Message: "The runner's host is lost, and its output with it."}

func (c *Controller) askHost(ctx context.Context, s *relay.Stream) error {
	r, err := c.store.Runner(ctx, s.RunnerID)
	if err != nil || r.State == store.RunnerProvisioning {
		return err
	}
	if end, gone := c.outputGone(r); gone {
		c.relay.Fail(r.ID, end)
		return nil
	}
	h, err := c.store.Host(ctx, s.HostID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !h.LostAt.IsZero() {
		c.relay.Fail(r.ID, hostLost)
		return nil
	}
	if err != nil {
		return err
	}
	id := store.NewID(idStream)
	task, fresh, err := c.queue.Enqueue(ctx, s.HostID, protocol.Task{
		Kind: protocol.TaskStreamLogs, RunnerID: r.ID, Logs: &protocol.StreamLogs{Stream: id, Follow: true, Tail: logTail},
	})
	if err != nil {
		return err
	}
	if !fresh { // somebody watched it a moment ago, and its host has not answered yet
		var asked protocol.Task
		if err := json.Unmarshal(task.Payload, &asked); err != nil || asked.Logs == nil {
			return fmt.Errorf("cannot read task %s: %w", task.ID, err)
		}
		id = asked.Logs.Stream
	}
	if !c.relay.Asked(s, id) { // the last viewer has left meanwhile
		_, err = c.store.CancelTasks(ctx, r.ID, string(protocol.TaskStreamLogs))
	}
	return err
}

// logsBegun takes the post of a stream as the answer to its task, which the host's own answer may come after: whoever watches the
// runner next must get a stream of their own, and not the one of a task that seems to be outstanding.
func (c *Controller) logsBegun(ctx context.Context, s *relay.Stream) error {
	ts, err := c.store.Tasks(ctx, s.RunnerID)
	if err != nil {
		return err
	}
	for _, t := range ts {
		if t.Kind == string(protocol.TaskStreamLogs) && t.State == store.TaskLeased {
			if _, _, err := c.store.FinishTask(ctx, s.HostID, t.ID, t.Attempt, true, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// nobodyWatches tells a host to stop sending. One that has not begun is not told: it is refused when it does.
func (c *Controller) nobodyWatches(s *relay.Stream) {
	ctx := context.Background() // that of the last viewer has ended
	_, err := c.store.CancelTasks(ctx, s.RunnerID, string(protocol.TaskStreamLogs))
	if err == nil && s.Sending() {
		_, _, err = c.queue.Enqueue(ctx, s.HostID, protocol.Task{Kind: protocol.TaskCancelLogs, Logs: &protocol.StreamLogs{Stream: s.ID()}})
	}
	if err != nil {
		c.log.Warn("cannot tell a host that nobody watches a runner any more", "runner", s.RunnerID, "host", s.HostID, "err", err)
	}
}
