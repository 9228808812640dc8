package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// errUncertain says that nobody could tell whether a runner has a workload. It never allows
// making another one.
var errUncertain = errors.New("the host cannot tell whether the runner exists")

// lookup finds a runner's workload in b. Only a list that came back whole says that there is
// none; when it does not come, it is asked for again after each of InventoryRetries, and then
// the answer is errUncertain.
func (a *Agent) lookup(ctx context.Context, b backend.Backend, runnerID string) (backend.Workload, bool, error) {
	w, found, err := find(ctx, b, runnerID)
	for _, wait := range InventoryRetries {
		if err == nil || !sleep(ctx, wait) {
			break
		}
		w, found, err = find(ctx, b, runnerID)
	}
	if err != nil {
		return w, false, fmt.Errorf("%w: %w", errUncertain, err)
	}
	return w, found, nil
}

// find asks b once.
func find(ctx context.Context, b backend.Backend, runnerID string) (backend.Workload, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ListTimeout)
	defer cancel()
	ws, err := b.List(ctx)
	if err != nil {
		return backend.Workload{}, false, err
	}
	w, found := pick(ws, runnerID, "")
	return w, found, nil
}

// pick chooses a runner's workload among ws: the known one, else one that runs, else any.
func pick(ws []backend.Workload, runnerID, known string) (best backend.Workload, found bool) {
	for _, w := range ws {
		if w.RunnerID != runnerID || w.Role == backend.RoleDaemon {
			continue
		}
		if w.ID == known {
			return w, true
		}
		if !found || (w.Phase == backend.Running && best.Phase != backend.Running) {
			best, found = w, true
		}
	}
	return best, found
}
