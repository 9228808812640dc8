// Package tasks is the durable queue of work for the hosts: it wakes a host's long poll the
// moment a task is written, and offers a task again when its lease ends. The rows, and the
// guards on them, are the store's. It must never decide what a host should do.
package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Leases, each longer than the work it covers takes at most (see the invariants test).
const (
	CreateLease  = 20 * time.Minute
	StopLease    = 10 * time.Minute
	RemoveLease  = 5 * time.Minute
	PrewarmLease = 20 * time.Minute
	LogsLease    = 30 * time.Second // a log relay that nobody took is not worth a second offer
)

// MaxOffers is how often a task is offered before it is given up.
const MaxOffers = 3

// Lease is how long one delivery of a task of that kind may take.
func Lease(kind string) time.Duration {
	switch protocol.TaskKind(kind) {
	case protocol.TaskCreate:
		return CreateLease
	case protocol.TaskStop:
		return StopLease
	case protocol.TaskRemove:
		return RemoveLease
	case protocol.TaskPrewarm:
		return PrewarmLease
	default:
		return LogsLease
	}
}

// Offers is how often a task of that kind is offered.
func Offers(kind string) int {
	switch protocol.TaskKind(kind) {
	case protocol.TaskStreamLogs, protocol.TaskCancelLogs:
		return 1
	default:
		return MaxOffers
	}
}

// Queue hands tasks to hosts.
type Queue struct {
	store  *store.Store
	log    *slog.Logger
	now    func() time.Time
	leased events.Wake // a lease began: the reaper may have to wake sooner

	mu    sync.Mutex
	hosts map[string]*line
}

// line is the way to one host.
type line struct {
	news chan struct{} // closed and replaced when the host has something new, or somebody else polls for it
	runs runs          // of its agent
	poll uint64        // the latest poll: an earlier one is of a connection that the host has given up

	leasing sync.Mutex // held while the latest poll takes a task, so that no earlier one does
}

// New returns a queue over the store.
func New(st *store.Store, now func() time.Time, log *slog.Logger) *Queue {
	return &Queue{store: st, log: log, now: now, leased: events.NewWake(), hosts: map[string]*line{}}
}

// Wake tells a host's long poll that there is a task.
func (q *Queue) Wake(hostID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line(hostID).ring()
}

// line finds or makes a host's line. The caller holds mu.
func (q *Queue) line(hostID string) *line {
	l, ok := q.hosts[hostID]
	if !ok {
		l = &line{news: make(chan struct{})}
		q.hosts[hostID] = l
	}
	return l
}

func (l *line) ring() {
	close(l.news)
	l.news = make(chan struct{})
}

// look returns what to wait on before another look, and whether poll is still the latest of its host.
func (q *Queue) look(l *line, poll uint64) (news <-chan struct{}, latest bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return l.news, l.poll == poll
}

// enter makes the caller the host's latest poll and ends the one before.
func (q *Queue) enter(hostID string) (*line, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(hostID)
	l.poll++
	l.ring()
	return l, l.poll
}

// Enqueue writes a task and wakes its host. fresh is false when the same runner has a task of that kind
// outstanding already, which is then returned.
func (q *Queue) Enqueue(ctx context.Context, hostID string, t protocol.Task) (task store.Task, fresh bool, err error) {
	payload, err := json.Marshal(t)
	if err != nil {
		return store.Task{}, false, fmt.Errorf("cannot encode task %s: %w", t.Kind, err)
	}
	task, fresh, err = q.store.EnqueueTask(ctx, store.Task{HostID: hostID, RunnerID: t.RunnerID, Kind: string(t.Kind), Payload: payload})
	if err == nil {
		q.Wake(hostID)
	}
	return task, fresh, err
}

// EnqueueCreate writes a runner's create task together with its registration, and wakes its host.
func (q *Queue) EnqueueCreate(ctx context.Context, r store.Runner, githubID int64, c protocol.CreateRunner) (store.Task, error) {
	payload, err := json.Marshal(protocol.Task{Kind: protocol.TaskCreate, RunnerID: r.ID, Create: &c})
	if err != nil {
		return store.Task{}, fmt.Errorf("cannot encode the create of runner %s: %w", r.ID, err)
	}
	t, err := q.store.EnqueueCreate(ctx, r.ID, githubID, store.Task{HostID: r.HostID, RunnerID: r.ID, Kind: string(protocol.TaskCreate), Payload: payload})
	if err == nil {
		q.Wake(r.HostID)
	}
	return t, err
}

// EnqueueRemove asks a runner's host to remove it, unless that is known to be gone or asked for already (see store.EnqueueRemove),
// and wakes the host.
func (q *Queue) EnqueueRemove(ctx context.Context, r store.Runner) (store.Removal, error) {
	payload, err := json.Marshal(protocol.Task{Kind: protocol.TaskRemove, RunnerID: r.ID})
	if err != nil {
		return store.Removal{}, fmt.Errorf("cannot encode the removal of runner %s: %w", r.ID, err)
	}
	rm, err := q.store.EnqueueRemove(ctx, store.Task{HostID: r.HostID, RunnerID: r.ID, Payload: payload})
	if err == nil && !rm.Gone {
		q.Wake(r.HostID)
	}
	return rm, err
}

// Poll waits up to wait for a task of the host and leases it. It returns nil, nil when there was none, and when another poll of
// the same host begins: the agent makes one at a time, so this one's connection is dead, and a task given to it would be lost
// until its lease ends.
func (q *Queue) Poll(ctx context.Context, hostID string, wait time.Duration) (*protocol.Task, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	l, poll := q.enter(hostID)
	for {
		row, news, err := q.lease(ctx, l, hostID, poll)
		if err != nil {
			return nil, fmt.Errorf("cannot lease a task of host %s: %w", hostID, err)
		}
		if row != nil {
			q.leased.Set()
			return decode(row)
		}
		if news == nil {
			return nil, nil
		}
		select {
		case <-news:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lease takes the host's next task. It returns what to wait on when there is none, and nothing when poll is not the latest.
func (q *Queue) lease(ctx context.Context, l *line, hostID string, poll uint64) (*store.Task, <-chan struct{}, error) {
	l.leasing.Lock()
	defer l.leasing.Unlock()
	news, latest := q.look(l, poll) // before the look at the table, so that a task written in between is not missed
	if !latest {
		return nil, nil, nil
	}
	row, err := q.store.LeaseTask(ctx, hostID, Lease)
	return row, news, err
}

func decode(row *store.Task) (*protocol.Task, error) {
	var t protocol.Task
	if err := json.Unmarshal(row.Payload, &t); err != nil {
		return nil, fmt.Errorf("cannot read task %s: %w", row.ID, err)
	}
	t.ID, t.Kind, t.RunnerID = row.ID, protocol.TaskKind(row.Kind), row.RunnerID
	t.Attempt, t.LeaseUntil = row.Attempt, row.LeaseUntil
	return &t, nil
}

// Reap offers tasks again when their leases end, and hands the ones that were given up to dropped. It
// sleeps until the next lease ends, and returns when ctx does.
func (q *Queue) Reap(ctx context.Context, requeued, dropped func(store.Task)) {
	const retry = 5 * time.Second // after a store error
	for {
		re, dr, err := q.store.ExpireLeases(ctx, Offers)
		if err != nil && ctx.Err() == nil {
			q.log.Error("cannot expire task leases", "err", err)
		}
		for _, t := range re {
			q.log.Warn("offering a task again: its lease ended without an answer", "task", t.ID, "kind", t.Kind, "host", t.HostID, "runner", t.RunnerID, "offers", t.Attempt)
			q.Wake(t.HostID)
			requeued(t)
		}
		for _, t := range dr {
			q.log.Error("giving a task up after its last offer", "task", t.ID, "kind", t.Kind, "host", t.HostID, "runner", t.RunnerID, "offers", t.Attempt)
			dropped(t)
		}
		var sleep <-chan time.Time
		next, ok, nerr := q.store.NextLeaseEnd(ctx)
		switch {
		case err != nil || nerr != nil:
			sleep = time.After(retry)
		case ok:
			sleep = time.After(max(0, next.Sub(q.now())) + time.Millisecond)
		}
		select {
		case <-sleep:
		case <-q.leased.C():
		case <-ctx.Done():
			return
		}
	}
}
