package machines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// Review is something at a provider that no row explains. Nothing is done about it unless an operator says so.
type Review struct {
	ProviderID string
	Found      provider.Found
	// Orphan is set when it carries a mark of this fleet for the very identity that it has: an operator may have it deleted.
	Orphan bool
	Why    string
	SeenAt time.Time
}

// Reviews is what the last sweeps found that no row explains, by provider and identity.
func (g *Manager) Reviews() []Review {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []Review
	for _, r := range g.reviews {
		list = append(list, r...)
	}
	slices.SortFunc(list, func(a, b Review) int {
		return cmp.Or(cmp.Compare(a.ProviderID, b.ProviderID), cmp.Compare(a.Found.Resource.ID, b.Found.Resource.ID))
	})
	return list
}

func (g *Manager) sweepIfDue(ctx context.Context, id string) (time.Duration, bool, error) {
	row, err := g.Store.Provider(ctx, id)
	if err != nil {
		return 0, false, ignoreMoved(err)
	}
	_, every := g.Limits()
	if every <= 0 {
		every = SweepInterval
	}
	fenced := !row.FencedAt.IsZero()
	g.mu.Lock()
	_, known := g.reviews[id]
	g.mu.Unlock()
	if wait := row.SweptAt.Add(every).Sub(g.Now()); known && wait > 0 && !fenced {
		return wait, false, nil
	}
	if err := g.Sweep(ctx, id); err != nil {
		return 0, false, err
	}
	if fenced {
		return retryWait, true, nil
	}
	return every, true, nil
}

// Sweep compares what is at a provider with its rows. The list may lag, so that nothing follows from it alone: whatever it calls
// into question is inspected.
func (g *Manager) Sweep(ctx context.Context, providerID string) error {
	row, err := g.Store.Provider(ctx, providerID)
	if err != nil {
		return err
	}
	x, err := g.connect(ctx, row)
	if err != nil {
		return fmt.Errorf("cannot connect to provider %s: %w", row.Name, err)
	}
	began := g.Now()
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	listed, err := x.List(cctx)
	if err != nil {
		return fmt.Errorf("cannot list what is at provider %s: %w", row.Name, err)
	}
	// After the list: a row exists before its resource, so that what is listed has its row by now.
	rows, err := g.Store.Machines(ctx, store.MachineFilter{ProviderID: providerID})
	if err != nil {
		return err
	}
	h := hand{Manager: g, row: row, provider: x}
	byID, seen := map[string]store.Machine{}, map[string]bool{}
	for _, m := range rows {
		byID[m.ID] = m
	}
	reviews := []Review{}
	for _, f := range listed {
		if f.Template {
			continue
		}
		m, why := h.explain(byID, f)
		if why == "" {
			seen[m.ID] = true
			continue
		}
		if r := h.review(ctx, f, why); r != nil {
			reviews = append(reviews, *r)
		}
	}
	var errs []error
	for _, m := range rows {
		if !seen[m.ID] {
			errs = append(errs, h.verify(ctx, m))
		}
	}
	g.mu.Lock()
	g.reviews[providerID] = reviews
	g.mu.Unlock()
	errs = append(errs, g.Store.SetProviderSwept(ctx, providerID, began))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.liftFence(ctx, providerID, began)
}

// explain finds the row of what was found, or says why there is none.
func (h hand) explain(rows map[string]store.Machine, f provider.Found) (store.Machine, string) {
	switch {
	case f.Mark == nil && f.Incomplete:
		for _, m := range rows {
			if m.ResourceID == f.Resource.ID && m.State != store.MachineDeleted {
				return m, "" // its row follows it
			}
		}
		return store.Machine{}, "something half made has an identity that is ours to give, and no machine has it"
	case f.Mark == nil:
		return store.Machine{}, "it has a name or number that only this fleet should have, and no mark of ours"
	case f.Mark.Fleet != h.Fleet:
		return store.Machine{}, "it is another fleet's and has a name or number that only this fleet should have"
	case f.Mark.Resource != f.Resource.ID:
		return store.Machine{}, fmt.Sprintf("it is a copy of %s, made by somebody else", f.Mark.Resource)
	}
	m, ok := rows[f.Mark.Machine]
	switch {
	case !ok:
		return m, "it is ours by its mark, and there is no row of it"
	case m.ReleasedBy != "":
		return m, fmt.Sprintf("it was released by %s", m.ReleasedBy)
	case m.State == store.MachineDeleted:
		return m, "it is ours by its mark, and its row says that it was deleted"
	case !f.Carries(h.mark(m)):
		return m, fmt.Sprintf("it carries the mark of machine %s, which is another", m.Name)
	}
	return m, ""
}

// review is what an inspection leaves of a question that a list has raised.
func (h hand) review(ctx context.Context, f provider.Found, why string) *Review {
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	now, err := h.provider.Inspect(cctx, f.Resource)
	if errors.Is(provider.Class(err), provider.ErrNotFound) {
		return nil
	}
	if err == nil {
		f = now
	}
	return &Review{
		ProviderID: h.row.ID, Found: f, Why: why, SeenAt: h.Now(),
		Orphan: f.Mark != nil && f.Mark.Fleet == h.Fleet && f.Mark.Resource == f.Resource.ID,
	}
}

// verify looks at a machine that should exist and was not in the list as it should be.
func (h hand) verify(ctx context.Context, m store.Machine) error {
	if m.State != store.MachineReady && m.State != store.MachineDraining && m.State != store.MachineFailed || m.ResourceID == "" {
		return nil // it has a step of its own that looks, or nothing may be done about it
	}
	s, _, err := h.observe(ctx, m)
	if err != nil || s == unclear || s == ours && m.State != store.MachineFailed {
		return err
	}
	if !h.row.FencedAt.IsZero() {
		return nil // it is proved now; what follows from it waits
	}
	switch {
	case m.State == store.MachineFailed && s == ours:
		_, err = h.move(ctx, m.ID, store.MachineDeleting, store.MachineChange{Message: "it was given up, and its resource exists: " + m.Message})
	case m.State == store.MachineReady && s == foreign:
		_, err = h.move(ctx, m.ID, store.MachineQuarantined, store.MachineChange{Message: notOurs(m)})
	case m.State != store.MachineFailed:
		why := "its machine was deleted at the provider"
		if s == foreign {
			why = notOurs(m)
		}
		if err := h.Lose(ctx, m.HostID, why); err != nil {
			return err
		}
		_, err = h.move(ctx, m.ID, store.MachineDeleting, store.MachineChange{Message: why})
	}
	return ignoreMoved(err)
}

// liftFence ends a fence once every row has been proved and what is there was compared with them.
func (g *Manager) liftFence(ctx context.Context, id string, swept time.Time) error {
	row, err := g.Store.Provider(ctx, id)
	if err != nil || row.FencedAt.IsZero() || !swept.After(row.FencedAt) {
		return err
	}
	err = g.Store.LiftFence(ctx, id, row.FencedAt)
	if errors.Is(err, store.ErrConflict) {
		return nil // the next sweep tries again
	}
	if err == nil {
		g.Logger.Info("every machine of a provider is proved: its fence is lifted", "provider", row.Name)
		g.Bus.Publish(events.ProviderChanged, id)
	}
	return err
}
