package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

var errCordoned = errors.New("the host was cordoned before this runner's turn came")

// create starts one runner and answers its task. It runs in an admission slot.
func (a *Agent) create(ctx context.Context, j *job) {
	timeout := j.task.Create.Timeout.Duration()
	if timeout <= 0 {
		timeout = CreateTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w, err := a.startRunner(ctx, j)
	a.judgeStart(ctx, err)
	switch {
	case err == nil:
		a.finish(j, protocol.TaskResult{OK: true, WorkloadID: w.ID, StartedAt: w.StartedAt})
		a.reportNow.up()
	case errors.Is(context.Cause(ctx), errSuperseded):
		a.finish(j, failed(errSuperseded))
	case errors.Is(err, errUncertain) && j.task.Attempt > 1:
		a.abandon(j, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.finish(j, failed(fmt.Errorf("cannot start the runner within %s: %w", timeout, err)))
	default:
		a.finish(j, failed(err))
	}
}

// judgeStart opens or clears the cooldown. Only an engine that did not answer opens it: not a
// start that outran its own budget, and not one that was called off.
func (a *Agent) judgeStart(ctx context.Context, err error) {
	switch {
	case err == nil:
		a.cooldown.clear()
	case errors.Is(err, backend.ErrUnavailable) && ctx.Err() == nil:
		hold := a.cooldown.open()
		a.log.Warn("the container engine does not answer; starts are held", "for", hold, "error", err)
	}
}

// startRunner finds or makes the workload of j's runner.
func (a *Agent) startRunner(ctx context.Context, j *job) (backend.Workload, error) {
	c, id := j.task.Create, j.task.RunnerID
	spec, err := specOf(c, id, a.HostID())
	if err != nil {
		return backend.Workload{}, err
	}
	b := a.byName[c.Backend]
	if b == nil {
		return backend.Workload{}, fmt.Errorf("cannot start the runner: this host has no backend %q", c.Backend)
	}
	// On a first delivery nothing can exist yet, so a cordon is a plain no.
	if j.task.Attempt <= 1 && a.cordoned.Load() {
		return backend.Workload{}, errCordoned
	}
	a.fleet.begin(id, b.Name(), c.Name)
	w, err := a.findOrMake(ctx, b, spec)
	if err != nil {
		a.fleet.abort(id)
		return backend.Workload{}, err
	}
	a.fleet.created(id, b.Name(), w)
	a.sweepNow.up()
	return w, nil
}

func (a *Agent) findOrMake(ctx context.Context, b backend.Backend, spec backend.Spec) (backend.Workload, error) {
	w, found, err := a.lookup(ctx, b, spec.RunnerID)
	if err != nil {
		return w, err
	}
	if found && w.Phase == backend.Created {
		// An agent that died between making and starting left it: it never ran, so its
		// registration is unused.
		if err := b.Remove(ctx, w.ID); err != nil {
			return w, fmt.Errorf("cannot clear away a half-made workload of this runner: %w", err)
		}
		found = false
	}
	if found {
		a.log.Info("the runner has a workload already: adopted", "runner", spec.RunnerID, "workload", w.ID)
		return w, nil
	}
	if a.cordoned.Load() {
		return w, errCordoned
	}
	release, err := a.prepare(ctx, b, spec.Image, spec.Policy)
	if err != nil {
		return w, err
	}
	defer release()
	if d := spec.Daemon; d != nil {
		release, err := a.prepare(ctx, b, d.Image, spec.Policy)
		if err != nil {
			return w, err
		}
		defer release()
	}
	if spec.Policy == backend.PullAlways {
		spec.Policy = backend.PullMissing // it was fetched a moment ago
	}
	w, err = b.Create(ctx, spec)
	if errors.Is(err, backend.ErrExists) {
		return a.claimExisting(ctx, b, spec, err)
	}
	if err != nil {
		return w, fmt.Errorf("cannot start the runner: %w", err)
	}
	return w, nil
}

// claimExisting tells this runner's own workload, which is adopted, from somebody else's of
// the same name, which is left alone.
func (a *Agent) claimExisting(ctx context.Context, b backend.Backend, spec backend.Spec, cause error) (backend.Workload, error) {
	w, found, err := a.lookup(ctx, b, spec.RunnerID)
	if err != nil || found {
		return w, err
	}
	return w, fmt.Errorf("cannot start the runner: the host has something else named %q; remove it, or rename it: %w", spec.Name, cause)
}

// prepare makes an image present; a backend without images has none to prepare. The image is not evicted before release.
func (a *Agent) prepare(ctx context.Context, b backend.Backend, image, policy string) (release func(), err error) {
	if image == "" {
		return func() {}, nil
	}
	use, err := a.beginUse(ctx, b, image, policy)
	if err == nil {
		if err = b.Prepare(ctx, image, policy); err == nil {
			a.noteFetched(ctx, b, image, policy, use)
			return use.end, nil
		}
		use.abort()
	}
	return nil, fmt.Errorf("cannot prepare the image %s: %w", image, err)
}

// prewarm fetches an image before it is needed. It runs in an admission slot.
func (a *Agent) prewarm(ctx context.Context, j *job) {
	p := j.task.Prewarm
	b := a.byName[p.Backend]
	if b == nil {
		a.finish(j, failed(fmt.Errorf("cannot fetch the image: this host has no backend %q", p.Backend)))
		return
	}
	if a.cordoned.Load() {
		a.finish(j, failed(errors.New("cannot fetch the image: the host is cordoned")))
		return
	}
	key := p.Backend + "\x00" + p.Image + "\x00" + p.PullPolicy
	if a.prepared.has(key, a.now()) {
		a.finish(j, succeeded())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, PrewarmTimeout)
	defer cancel()
	release, err := a.prepare(ctx, b, p.Image, p.PullPolicy)
	a.judgeStart(ctx, err)
	if err != nil {
		a.finish(j, failed(err))
		return
	}
	release()
	a.prepared.note(key, a.now())
	a.finish(j, succeeded())
}

// prepared remembers successful background preparations for PrewarmReuse.
type prepared struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (p *prepared) has(key string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.at[key]
	return ok && now.Sub(at) < PrewarmReuse
}

func (p *prepared) note(key string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.at, func(_ string, at time.Time) bool { return now.Sub(at) >= PrewarmReuse })
	p.at[key] = now
}
