package agent

import (
	"context"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// reap removes what may go: a runner whose end is acknowledged and whose retention has
// passed, and one that lives although the controller calls it ended or unknown, and did so
// OrphanGrace ago.
func (a *Agent) reap(ctx context.Context) {
	now, retention := a.now(), time.Duration(a.retention.Load())
	f := a.fleet
	f.mu.Lock()
	var due []tracked
	for _, t := range f.byID {
		if t.starting || t.removing || t.gone || t.workload == "" {
			continue
		}
		ended := t.end != nil && !t.ackAt.IsZero() && now.Sub(t.ackAt) >= retention
		orphaned := t.end == nil && t.orphan && a.polled.Load()
		if ended || orphaned {
			t.removing = true
			due = append(due, *t)
		}
	}
	f.mu.Unlock()
	for _, t := range due {
		if t.end == nil {
			a.log.Warn("removing a runner that the controller does not claim", "runner", t.id, "workload", t.workload, "since", t.disclaimed)
		}
		a.reapOne(ctx, a.byName[t.backend], t.workload, func(err error) {
			if err != nil {
				f.with(t.id, func(t *tracked) { t.removing = false })
				return
			}
			a.buryRunner(t.id, t.end == nil)
		})
	}
}

// buryRunner notes that a runner's workload is removed and sees that it is said.
func (a *Agent) buryRunner(id string, disclaimed bool) {
	if disclaimed {
		a.fleet.finished(id, ending{state: stateRemoved, message: "The host removed the runner's workload: the controller did not claim it any more."})
	}
	a.fleet.removed(id)
	a.reportNow.up()
}

// reapOne removes one workload in the background, a few at a time.
func (a *Agent) reapOne(ctx context.Context, b backend.Backend, workload string, then func(error)) {
	a.work.Go(func() {
		select {
		case a.reaping <- struct{}{}:
			defer func() { <-a.reaping }()
		case <-ctx.Done():
			then(ctx.Err())
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RemoveTimeout)
		defer cancel()
		err := b.Remove(ctx, workload)
		if err != nil {
			a.log.Warn("cannot remove a workload yet", "backend", b.Name(), "workload", workload, "error", err)
		}
		then(err)
	})
}

// orphans are managed workloads that belong to no runner that this host knows: sidecars whose
// runner is gone, and workloads whose labels name no runner.
type orphans struct {
	mu   sync.Mutex
	seen map[string]time.Time // by backend and workload: since when
}

// reapOrphans looks for orphans in one backend's list and removes those that have been seen
// for OrphanGrace. Before the first answered poll nothing is an orphan: a controller that is
// down cannot claim anything.
func (a *Agent) reapOrphans(ctx context.Context, b backend.Backend, ws []backend.Workload, listed time.Time) {
	now := a.now()
	here := map[string]bool{}
	for _, w := range ws {
		if !a.orphaned(b.Name(), w, ws, listed) {
			continue
		}
		key := b.Name() + "/" + w.ID
		here[key] = true
		a.orphans.mu.Lock()
		since, known := a.orphans.seen[key]
		if !known {
			a.orphans.seen[key] = now
		}
		due := known && now.Sub(since) >= OrphanGrace && a.polled.Load()
		if due {
			a.orphans.seen[key] = now // a removal that fails is tried again a grace later
		}
		a.orphans.mu.Unlock()
		if due {
			a.log.Warn("removing a workload that nothing claims", "backend", b.Name(), "workload", w.ID, "name", w.Name, "role", w.Role)
			a.reapOne(ctx, b, w.ID, func(error) {})
		}
	}
	a.orphans.mu.Lock()
	defer a.orphans.mu.Unlock()
	for key := range a.orphans.seen {
		if !here[key] && keyOf(key, b.Name()) {
			delete(a.orphans.seen, key)
		}
	}
}

// orphaned says whether w belongs to no runner that this host knows.
func (a *Agent) orphaned(backendName string, w backend.Workload, ws []backend.Workload, listed time.Time) bool {
	if w.RunnerID == "" {
		return true
	}
	t, known := a.fleet.get(w.RunnerID)
	switch {
	case !known:
		return w.Role == backend.RoleDaemon // a runner itself would have been adopted
	case t.starting || t.removing || t.backend != backendName:
		return false
	case w.Role == backend.RoleDaemon:
		_, has := pick(ws, w.RunnerID, "")
		return !has && t.firstSeen.Before(listed)
	default:
		return t.workload != "" && t.workload != w.ID // a second workload of one runner
	}
}

func keyOf(key, backendName string) bool {
	return len(key) > len(backendName) && key[:len(backendName)+1] == backendName+"/"
}
