// Package engine holds what the backends of container engines have in common besides their
// contract: the order of the steps in which a workload is made, stopped and removed, and what
// is remembered meanwhile. It knows no engine: a step is a call of an interface, and each
// backend says it in its engine's own words.
package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// SettleLimit is how long a step under way may take after its caller gave up.
const SettleLimit = 10 * time.Second

// RemoveLimit bounds one clean-up after a failure.
const RemoveLimit = time.Minute

// KillLimit is how long a killed process may take to be gone.
const KillLimit = 30 * time.Second

// Settle gives what has been begun a bounded time to end properly after ctx has: an engine
// asked to create a container creates it whether or not anybody waits, so the answer must be
// heard before the container can be removed.
func Settle(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}

// Starts are the runners whose create is under way. The zero value is ready.
type Starts struct {
	mu      sync.Mutex
	runners map[string]struct{}
}

// Begin reserves a runner until the function it returns is called, or is ErrExists.
func (s *Starts) Begin(runner string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.runners[runner]; busy {
		return nil, fmt.Errorf("runner %s is being created already: %w", runner, backend.ErrExists)
	}
	if s.runners == nil {
		s.runners = map[string]struct{}{}
	}
	s.runners[runner] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runners, runner)
	}, nil
}

// UnderWay are the reserved runners.
func (s *Starts) UnderWay() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]struct{}, len(s.runners))
	for runner := range s.runners {
		out[runner] = struct{}{}
	}
	return out
}

// Owner is the host label for a spec on the backend of hostID.
func Owner(hostID string, spec backend.Spec) (string, error) {
	if hostID == "" || spec.HostID == "" || spec.HostID == hostID {
		return max(hostID, spec.HostID), nil // the one that is not empty
	}
	return "", fmt.Errorf("the workload is meant for host %s and this is %s", spec.HostID, hostID)
}

// Ours says whether labels are those of a workload of hostID, or of any host when it is empty.
func Ours(labels map[string]string, hostID string) bool {
	return labels[backend.LabelManaged] == "true" && (hostID == "" || labels[backend.LabelHost] == hostID)
}

// Short is the part of an ID that people read.
func Short(id string) string { return id[:min(len(id), 12)] }
