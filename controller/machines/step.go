package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// jobs lists what there is to work on: every machine that is not finished with, every provider's sweep and image.
func (g *Manager) jobs(ctx context.Context) ([]job, error) {
	rows, err := g.Store.Providers(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	machines, err := g.Store.Machines(ctx, store.MachineFilter{Live: true})
	if err != nil {
		return nil, err
	}
	fenced := map[string]bool{}
	var list []job
	for _, r := range rows {
		fenced[r.ID] = !r.FencedAt.IsZero()
		list = append(list, job{id: "sweep of " + r.ID, group: "sweep of " + r.ID, do: func(ctx context.Context) (time.Duration, bool, error) {
			return g.sweepIfDue(ctx, r.ID)
		}})
		if g.Image != nil {
			list = append(list, job{id: "image of " + r.ID, group: "image of " + r.ID, do: func(ctx context.Context) (time.Duration, bool, error) {
				return g.prepare(ctx, r.ID)
			}})
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range machines {
		if !works(m) && !fenced[m.ProviderID] {
			continue
		}
		_, late := g.giveUps[m.ID]
		list = append(list, job{id: m.ID, state: string(m.State), group: m.ProviderID, priority: late, do: func(ctx context.Context) (time.Duration, bool, error) {
			return g.work(ctx, m.ID)
		}})
	}
	return list, nil
}

// works says whether there is something to do for a machine at its provider.
func works(m store.Machine) bool {
	switch m.State {
	case store.MachineDeleted, store.MachineQuarantined:
		return false
	case store.MachineReady:
		return !m.Settled
	case store.MachineDraining:
		return false
	case store.MachineFailed:
		return m.ResourceID != ""
	default:
		return true
	}
}

// work takes steps for a machine until it has to wait. It says how long, and whether its state changed.
func (g *Manager) work(ctx context.Context, id string) (time.Duration, bool, error) {
	moved := false
	for range maxSteps {
		m, err := g.Store.Machine(ctx, id)
		if err != nil {
			return 0, moved, ignoreMoved(err)
		}
		before := m.State
		wait, err := g.step(ctx, m)
		if err != nil {
			if ctx.Err() != nil {
				return 0, moved, nil //nolint:nilerr // told to stop
			}
			g.note(ctx, id, err)
			return 0, moved, err
		}
		m, err = g.Store.Machine(ctx, id)
		if err != nil {
			return 0, moved, ignoreMoved(err)
		}
		moved = moved || m.State != before
		if wait > 0 || m.State != before {
			return wait, moved, nil
		}
	}
	return pollWait, moved, nil // so many steps that change nothing are no progress
}

// note shows what keeps a machine from its next step.
func (g *Manager) note(ctx context.Context, id string, cause error) {
	g.Logger.Warn("a step of a machine failed; it is tried again", "machine", id, "err", cause)
	if m, err := g.Store.Machine(ctx, id); err == nil {
		_, _ = g.Store.NoteMachine(ctx, id, m.State, store.MachineProgress{Doing: "trying again, since it failed: " + cause.Error()})
	}
}

// step takes the next step for a machine. A wait of 0 is another step at once.
func (g *Manager) step(ctx context.Context, m store.Machine) (time.Duration, error) {
	row, err := g.Store.Provider(ctx, m.ProviderID)
	if err != nil {
		return 0, err
	}
	if m.State == store.MachineDeleting && m.ResourceID == "" {
		_, err := g.move(ctx, m.ID, store.MachineDeleted, store.MachineChange{Message: "nothing was ever made of it"})
		return pollWait, ignoreMoved(err)
	}
	reason, late := g.giveUp(m.ID)
	if late && (m.State == store.MachinePlanned || m.State == store.MachineBootstrapping || m.State == store.MachineEnrolling) {
		return pollWait, g.fail(ctx, m, store.MachineChange{Message: reason, UnlessJoined: true})
	}
	x, err := g.connect(ctx, row)
	if err != nil {
		return 0, fmt.Errorf("cannot connect to provider %s: %w", row.Name, err)
	}
	h := hand{Manager: g, row: row, provider: x}
	if !row.FencedAt.IsZero() {
		return lookWait, h.prove(ctx, m)
	}
	switch m.State {
	case store.MachinePlanned:
		return h.allocate(ctx, m)
	case store.MachineCreating, store.MachineStarting:
		if late && m.HostID == "" {
			return h.abandon(ctx, m, reason)
		}
		return h.create(ctx, m)
	case store.MachineBootstrapping, store.MachineEnrolling:
		return h.await(ctx, m)
	case store.MachineReady:
		return h.settle(ctx, m)
	case store.MachineDeleting:
		return h.destroy(ctx, m.ID)
	case store.MachineFailed:
		return h.look(ctx, m)
	default:
		return lookWait, nil
	}
}

func (g *Manager) giveUp(id string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason, late := g.giveUps[id]
	return reason, late
}

// fail gives a machine up. One that is starting is known to exist, so that it goes the way of a guest that never came up.
func (g *Manager) fail(ctx context.Context, m store.Machine, c store.MachineChange) error {
	if m.State == store.MachineStarting {
		if _, err := g.move(ctx, m.ID, store.MachineBootstrapping, store.MachineChange{Message: c.Message}); err != nil {
			return ignoreMoved(err)
		}
	}
	_, err := g.move(ctx, m.ID, store.MachineFailed, c)
	return ignoreMoved(err)
}

// hand works at one provider.
type hand struct {
	*Manager
	row      store.Provider
	provider provider.Provider
}

// machine is what a provider is told of a machine.
func (h hand) machine(m store.Machine) provider.Machine {
	return provider.Machine{
		Mark:     h.mark(m),
		Resource: provider.Resource{ID: m.ResourceID, Zone: m.Zone}, Name: m.Name, Shape: provider.Shape(m.Shape),
		Image:     provider.Image{SHA256: m.Image.SHA256, Name: m.Image.Name, Size: m.Image.Size},
		Operation: m.Operation,
		ConfigDrive: func(ctx context.Context) ([]byte, error) {
			return h.drive(ctx, m)
		},
	}
}

func (g *Manager) mark(m store.Machine) provider.Mark {
	return provider.Mark{Fleet: g.Fleet, Machine: m.ID, Resource: m.ResourceID, Nonce: m.Nonce}
}

// sight is what an inspection showed of a machine.
type sight int

const (
	unclear sight = iota // it could not be asked, or what is there is still being made
	gone                 // it is proved that nothing is there
	ours                 // it carries the machine's mark
	foreign              // something else has the identity
)

// observe inspects a machine's identity, and records what is proved by it.
func (h hand) observe(ctx context.Context, m store.Machine) (sight, provider.Found, error) {
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	f, err := h.provider.Inspect(cctx, provider.Resource{ID: m.ResourceID, Zone: m.Zone})
	var s sight
	p := store.MachineProgress{Proved: true}
	switch class := provider.Class(err); {
	case errors.Is(class, provider.ErrNotFound):
		s = gone
	case err != nil:
		return unclear, f, fmt.Errorf("cannot inspect %s: %w", m.ResourceID, err)
	case f.Carries(h.mark(m)):
		s, p.Zone = ours, f.Resource.Zone
	case f.Mark == nil && (f.Incomplete || f.Locked != ""):
		return unclear, f, nil // nobody can say whose it is
	default:
		s = foreign
	}
	_, err = h.Store.NoteMachine(ctx, m.ID, m.State, p)
	return s, f, err
}

// follow says whether a machine's operation is over. How it ended is no proof of anything: the world is looked at next.
func (h hand) follow(ctx context.Context, m store.Machine) (over bool, progress provider.Progress, err error) {
	if m.Operation == "" {
		return true, progress, nil
	}
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	progress, err = h.provider.Follow(cctx, m.Operation)
	switch {
	case errors.Is(provider.Class(err), provider.ErrNotFound):
	case err != nil:
		return false, progress, fmt.Errorf("cannot follow %s: %w", m.Operation, err)
	case !progress.Ended:
		return false, progress, nil
	}
	none := ""
	_, err = h.Store.NoteMachine(ctx, m.ID, m.State, store.MachineProgress{Operation: &none})
	return true, progress, err
}

// noteStep writes down what a step began.
func (h hand) noteStep(ctx context.Context, m store.Machine, s provider.Step, attempt bool) error {
	_, err := h.Store.NoteMachine(ctx, m.ID, m.State, store.MachineProgress{Operation: &s.Operation, Doing: s.Doing, Attempt: attempt})
	return err
}

// prove looks at a machine of a provider that is fenced, and changes nothing.
func (h hand) prove(ctx context.Context, m store.Machine) error {
	if m.ResourceID == "" || m.State == store.MachineQuarantined || m.ProvedAt.After(h.row.FencedAt) {
		return nil
	}
	s, _, err := h.observe(ctx, m)
	if err != nil {
		return err
	}
	if s == unclear {
		// Half made or locked, maybe for ever. That is what the world is like, and now it is known; no step touches it as long as it lasts.
		_, err = h.Store.NoteMachine(ctx, m.ID, m.State, store.MachineProgress{Proved: true})
		return ignoreMoved(err)
	}
	h.Logger.Info("a machine is looked at again, since the database may be older than the world", "machine", m.ID, "state", m.State, "gone", s == gone, "foreign", s == foreign)
	if s == foreign && (m.State == store.MachineCreating || m.State == store.MachineReady) {
		_, err = h.move(ctx, m.ID, store.MachineQuarantined, store.MachineChange{Message: notOurs(m)})
	}
	return ignoreMoved(err)
}

func notOurs(m store.Machine) string {
	return fmt.Sprintf("what is at %s does not carry its mark: it was not touched", m.ResourceID)
}
