package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// sweepLoop looks at the host whenever a backend says that something changed, and every
// SweepInterval in case nothing said so.
func (a *Agent) sweepLoop(ctx context.Context) {
	for a.sweepNow.wait(ctx, SweepInterval) {
		_ = a.ReconcileOnce(ctx) // it has logged what it could not see
	}
}

// ReconcileOnce compares what runs with what is known: it notes ends, adopts what an earlier
// agent left, removes what has ended and was acknowledged, and what nothing claims. A backend
// that does not answer says nothing of its runners.
func (a *Agent) ReconcileOnce(ctx context.Context) error {
	var errs []error
	for _, b := range a.backends {
		listed := a.now()
		ws, err := a.observe(ctx, b)
		a.noteSight(ctx, b.Name(), err)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot list what runs on %s: %w", b.Name(), err))
			continue
		}
		a.reapOrphans(ctx, b, ws, listed)
	}
	a.reap(ctx)
	a.fleet.forget()
	return errors.Join(errs...)
}

// adoptExisting takes over what an earlier agent left running, before any loop starts. An
// engine that does not answer yet is adopted from by the first sweep that sees it.
func (a *Agent) adoptExisting(ctx context.Context) {
	_ = a.ReconcileOnce(ctx)
}

// noteSight logs when a backend is lost from sight and when it is seen again.
func (a *Agent) noteSight(ctx context.Context, name string, err error) {
	_, blind := a.blind.Load(name)
	switch {
	case err != nil && !blind && ctx.Err() == nil:
		a.blind.Store(name, true)
		a.log.Warn("a backend does not answer; its runners are taken to be as they were", "backend", name, "error", err)
	case err == nil && blind:
		a.blind.Delete(name)
		a.log.Info("the backend answers again", "backend", name)
	}
}

// observe takes one backend's list to the books and returns it.
func (a *Agent) observe(ctx context.Context, b backend.Backend) ([]backend.Workload, error) {
	listed := a.now()
	listCtx, cancel := context.WithTimeout(ctx, ListTimeout)
	defer cancel()
	ws, err := b.List(listCtx)
	if err != nil {
		return nil, err
	}
	defer a.sighted.Store(b.Name(), true) // once its runners are in the books
	for _, w := range a.match(b.Name(), ws, listed) {
		e := a.verdict(ctx, b, w)
		if a.fleet.finished(w.RunnerID, e) {
			a.log.Info("runner ended", "runner", w.RunnerID, "state", e.state, "exit", w.ExitCode, "oom", w.OOMKilled)
			a.reportNow.up()
		}
	}
	return ws, nil
}

// match brings the known runners of one backend up to date with its list and returns the
// workloads whose end has not been judged yet.
func (a *Agent) match(backendName string, ws []backend.Workload, listed time.Time) (ended []backend.Workload) {
	f := a.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	present := map[string]bool{}
	for _, w := range ws {
		if w.RunnerID == "" || w.Role == backend.RoleDaemon || present[w.RunnerID] {
			continue
		}
		present[w.RunnerID] = true
		known := ""
		if t := f.byID[w.RunnerID]; t != nil {
			known = t.workload
		}
		w, _ = pick(ws, w.RunnerID, known)
		if a.matchOne(backendName, w, listed) {
			ended = append(ended, w)
		}
	}
	for id, t := range f.byID {
		if t.backend == backendName && !present[id] && t.workload != "" && !t.starting && !t.gone && t.firstSeen.Before(listed) {
			a.matchAbsent(t, listed)
		}
	}
	return ended
}

// matchOne updates one runner from its workload; it is true when the workload has ended and
// nobody has judged its end. The caller holds the fleet's lock.
func (a *Agent) matchOne(backendName string, w backend.Workload, listed time.Time) bool {
	f := a.fleet
	t := f.byID[w.RunnerID]
	if t == nil {
		if at, ok := f.buried[w.RunnerID]; ok && !at.Before(listed) {
			return false // the list is older than the removal
		}
		t = &tracked{
			id: w.RunnerID, backend: backendName, name: w.Name, workload: w.ID,
			startedAt: w.StartedAt, firstSeen: a.now(), announced: true, settled: true,
		}
		f.byID[t.id] = t
		a.log.Info("adopted a runner that was here before", "runner", t.id, "workload", w.ID, "phase", string(w.Phase))
		a.reportNow.up()
	}
	if t.starting || t.gone || t.backend != backendName || t.workload != w.ID {
		return false
	}
	t.missingSince = time.Time{}
	t.createdPhase = w.Phase == backend.Created
	if t.startedAt.IsZero() {
		t.startedAt = w.StartedAt
	}
	if t.end != nil {
		return false
	}
	switch w.Phase {
	case backend.Exited:
		return true
	case backend.Created:
		if a.now().Sub(t.firstSeen) >= MissingGrace {
			t.end = &ending{state: stateFailed, message: "The host's agent stopped after it had made this runner's workload and before it had started it."}
			a.reportNow.up()
		}
	case backend.Running:
		// "registering" was heard; from now on only the phase is said.
		if t.announced && !t.settled && a.now().Sub(t.firstSeen) >= SweepInterval {
			t.settled = true
			a.reportNow.up()
		}
	}
	return false
}

// matchAbsent notes that a list came without t. The caller holds the fleet's lock.
func (a *Agent) matchAbsent(t *tracked, listed time.Time) {
	switch {
	case t.missingSince.IsZero():
		t.missingSince = listed
	case listed.Sub(t.missingSince) < MissingGrace:
	case t.end == nil && !t.removing:
		t.end = &ending{state: stateFailed, message: "The runner's workload is not on the host any more, and nobody here removed it."}
		t.gone, t.goneAt = true, a.now()
		a.log.Warn("runner is missing", "runner", t.id, "workload", t.workload, "since", t.missingSince)
		a.reportNow.up()
	case t.end != nil:
		t.gone, t.goneAt = true, a.now()
		a.reportNow.up()
	}
}
