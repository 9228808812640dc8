package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// What operators ask for. by names them.

// Drain empties a machine and gives it back when its last runner has finished. Demand does not bring it back.
func (g *Manager) Drain(ctx context.Context, id, by string) (store.Machine, error) {
	return g.move(ctx, id, store.MachineDraining, store.MachineChange{Message: "drained by " + by, By: by})
}

// Delete gives a machine back, whatever it is at. store.ErrConflict while its host has live runners: drain it first. A machine that is
// being made is given up, and goes once it is known what became of it.
func (g *Manager) Delete(ctx context.Context, id, by string) (store.Machine, error) {
	m, err := g.Store.Machine(ctx, id)
	if err != nil {
		return m, err
	}
	c := store.MachineChange{Message: "deleted by " + by, By: by}
	switch m.State {
	case store.MachinePlanned, store.MachineBootstrapping, store.MachineEnrolling, store.MachineCreating:
		if m, err = g.move(ctx, id, store.MachineFailed, c); err != nil {
			return m, err
		}
		if m.State == store.MachineFailed && m.ResourceID != "" && m.BuiltAt.IsZero() {
			return m, nil // a create may still take effect: it is looked for, as for every one that failed
		}
		return g.move(ctx, id, store.MachineDeleting, c)
	case store.MachineStarting:
		if _, err = g.move(ctx, id, store.MachineBootstrapping, c); err != nil {
			return m, err
		}
		if _, err = g.move(ctx, id, store.MachineFailed, c); err != nil {
			return m, err
		}
		return g.move(ctx, id, store.MachineDeleting, c)
	case store.MachineReady, store.MachineDraining, store.MachineFailed, store.MachineDeleting:
		return g.move(ctx, id, store.MachineDeleting, c)
	default:
		return m, fmt.Errorf("cannot delete machine %s: %w: it is %s", m.Name, store.ErrConflict, m.State)
	}
}

// Release forgets a machine that is quarantined, or whose delete cannot be had. What is at the provider is left to the operator.
func (g *Manager) Release(ctx context.Context, id, by string) (store.Machine, error) {
	m, err := g.Store.ReleaseMachine(ctx, id, by, fmt.Sprintf("released by %s, who sees to what is left of it", by))
	if err == nil {
		g.moved(m)
	}
	return m, err
}

// Heard notes that a machine's guest is up: something of it was heard before it joined.
func (g *Manager) Heard(ctx context.Context, id string) error {
	m, err := g.Store.Machine(ctx, id)
	if err != nil || !m.BootedAt.IsZero() || m.State == store.MachineDeleted {
		return err
	}
	if _, err = g.Store.NoteMachine(ctx, id, m.State, store.MachineProgress{Booted: true}); err != nil {
		return ignoreMoved(err)
	}
	g.wake.Set()
	return nil
}

// DeleteOrphan has something deleted that is ours by its mark and has no row: it gets one, and then goes the way of every other
// leftover. provider.ErrForeign when it does not carry our mark for the identity that it has.
func (g *Manager) DeleteOrphan(ctx context.Context, providerID, resourceID, by string) (store.Machine, error) {
	row, err := g.Store.Provider(ctx, providerID)
	if err != nil {
		return store.Machine{}, err
	}
	x, err := g.connect(ctx, row)
	if err != nil {
		return store.Machine{}, fmt.Errorf("cannot connect to provider %s: %w", row.Name, err)
	}
	f, err := x.Inspect(ctx, provider.Resource{ID: resourceID})
	if err != nil {
		return store.Machine{}, fmt.Errorf("cannot inspect %s: %w", resourceID, err)
	}
	if f.Template || f.Mark == nil || f.Mark.Fleet != g.Fleet || f.Mark.Resource != f.Resource.ID || f.Mark.Machine == "" || f.Mark.Nonce == "" {
		return store.Machine{}, fmt.Errorf("cannot delete %s: %w", resourceID, provider.ErrForeign)
	}
	m, err := g.Store.AdoptMachine(ctx, store.Machine{
		ID: f.Mark.Machine, ProviderID: providerID, Name: orphanName(f), Nonce: f.Mark.Nonce, ResourceID: f.Resource.ID, Zone: f.Resource.Zone,
		Message: fmt.Sprintf("an orphan that %s has deleted", by), Reason: "an orphan that an operator has deleted",
	}, by)
	if err != nil {
		return m, err
	}
	g.Bus.Publish(events.MachineChanged, m.ID)
	g.wake.Set()
	return m, nil
}

func orphanName(f provider.Found) string {
	if f.Name != "" {
		return f.Name
	}
	return f.Mark.Machine
}

// prepare brings the image that a provider's machines should be made from to where they are made, and takes old ones away.
func (g *Manager) prepare(ctx context.Context, id string) (time.Duration, bool, error) {
	row, err := g.Store.Provider(ctx, id)
	if err != nil {
		return 0, false, ignoreMoved(err)
	}
	limits, _ := g.Limits()
	if !limits.Enabled || !row.Enabled || row.MaxMachines <= 0 || !row.PausedAt.IsZero() || !row.FencedAt.IsZero() {
		return Interval, false, nil
	}
	x, err := g.connect(ctx, row)
	if err != nil {
		return 0, false, fmt.Errorf("cannot connect to provider %s: %w", row.Name, err)
	}
	imager, ok := x.(provider.Imager)
	img, err := g.Image(ctx, row)
	if err != nil {
		return 0, false, fmt.Errorf("cannot find the image for provider %s: %w", row.Name, err)
	}
	if !ok || !x.Capabilities().Images || img.SHA256 == "" {
		return SweepInterval, false, nil
	}
	if err := g.Lease(ctx); err != nil {
		return 0, false, err
	}
	cctx, cancel := context.WithTimeout(ctx, ImageLimit)
	defer cancel()
	step, err := imager.EnsureImage(cctx, img)
	if err != nil {
		return 0, false, fmt.Errorf("cannot bring the image %s to provider %s: %w", img.Name, row.Name, err)
	}
	if !step.Done {
		return pollWait, false, nil
	}
	changed := row.Image.SHA256 != img.SHA256
	if changed {
		if err := g.Store.SetProviderImage(ctx, id, store.MachineImage{SHA256: img.SHA256, Name: img.Name, Size: img.Size}); err != nil {
			return 0, false, err
		}
		g.Bus.Publish(events.ProviderChanged, id)
	}
	// Machines that are planned with an older image still need it.
	coming, err := g.Store.Machines(ctx, store.MachineFilter{Live: true, ProviderID: id})
	if err != nil {
		return 0, changed, err
	}
	for _, m := range coming {
		if m.Image.SHA256 != img.SHA256 {
			return SweepInterval, changed, nil
		}
	}
	step, err = imager.PruneImages(cctx, img)
	if err != nil && !errors.Is(provider.Class(err), provider.ErrLocked) {
		return 0, changed, fmt.Errorf("cannot take old images away from provider %s: %w", row.Name, err)
	}
	if err == nil && !step.Done {
		return pollWait, changed, nil
	}
	return SweepInterval, changed, nil
}
