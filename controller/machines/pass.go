package machines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Pass decides once and writes down what was decided. It asks no provider.
func (g *Manager) Pass(ctx context.Context) (plan.Plan, error) {
	rows, err := g.Store.Providers(ctx)
	if err != nil || len(rows) == 0 {
		return plan.Plan{}, err
	}
	snap, err := g.snapshot(ctx, rows)
	if err != nil {
		return plan.Plan{}, err
	}
	p := plan.Make(snap)
	g.mu.Lock()
	g.unmet = p.Unmet
	g.mu.Unlock()
	var errs []error
	for _, a := range p.Actions {
		if err := g.apply(ctx, rows, a); err != nil {
			errs = append(errs, fmt.Errorf("cannot %s machine %q of provider %s: %w", a.Kind, a.MachineID, a.ProviderID, err))
		}
	}
	return p, errors.Join(errs...)
}

// snapshot reads everything that a decision is made from. Machines are read before demand: one that joins in between counts twice, as
// coming and as a host, and too little is rented until the next pass. The other way round, too much would be.
func (g *Manager) snapshot(ctx context.Context, rows []store.Provider) (plan.Snapshot, error) {
	limits, _ := g.Limits()
	s := plan.Snapshot{Now: g.Now(), Limits: limits}
	fail := func(what string, err error) (plan.Snapshot, error) {
		return s, fmt.Errorf("cannot read %s to decide about machines: %w", what, err)
	}
	machines, err := g.Store.Machines(ctx, store.MachineFilter{Live: true})
	if err != nil {
		return fail("the machines", err)
	}
	demand, err := g.Demand(ctx)
	if err != nil {
		return fail("what is needed", err)
	}
	s.Needs = demand.Needs
	hosts, err := g.hosts(ctx, demand)
	if err != nil {
		return fail("the hosts", err)
	}
	for _, m := range machines {
		h := hosts[m.HostID]
		if m, err = g.observe(ctx, m, h); err != nil {
			return fail("how machines are used", err)
		}
		s.Machines = append(s.Machines, planMachine(m, h))
	}
	for _, r := range rows {
		s.Providers = append(s.Providers, g.planProvider(r))
	}
	g.count(rows, machines)
	return s, nil
}

// hosts are the hosts as a decision sees them.
func (g *Manager) hosts(ctx context.Context, demand Demand) (map[string]*plan.Host, error) {
	rows, err := g.Store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	live, err := g.Store.Runners(ctx, store.RunnerFilter{Live: true})
	if err != nil {
		return nil, err
	}
	hosts := make(map[string]*plan.Host, len(rows))
	for _, h := range rows {
		hosts[h.ID] = &plan.Host{LostAt: h.LostAt, Coming: demand.Coming[h.ID], Closed: demand.Closed[h.ID]}
	}
	for _, r := range live {
		if h := hosts[r.HostID]; h != nil {
			h.Runners++
		}
	}
	return hosts, nil
}

// observe keeps a machine's idle clock, and notes its first job.
func (g *Manager) observe(ctx context.Context, m store.Machine, h *plan.Host) (store.Machine, error) {
	if h == nil {
		return m, nil
	}
	if m.FirstJobAt.IsZero() {
		at, err := g.Store.FirstBusy(ctx, m.HostID, m.JoinedAt)
		if err != nil {
			return m, err
		}
		if !at.IsZero() {
			if m, err = g.Store.NoteMachine(ctx, m.ID, m.State, store.MachineProgress{FirstJob: at}); err != nil {
				return m, ignoreMoved(err)
			}
			g.Metrics.Observe(metrics.MachineStage, at.Sub(m.JoinedAt), metrics.StageJoinedToFirstJob)
			g.Bus.Publish(events.MachineChanged, m.ID)
		}
	}
	if idle := h.Runners == 0 && h.Coming == 0; m.State == store.MachineReady && idle == m.IdleSince.IsZero() {
		if err := g.Store.SetMachineIdle(ctx, m.ID, idle); err != nil {
			return m, err
		}
		m.IdleSince = time.Time{}
		if idle {
			m.IdleSince = g.Now()
		}
	}
	return m, nil
}

func planMachine(m store.Machine, h *plan.Host) plan.Machine {
	return plan.Machine{
		ID: m.ID, Name: m.Name, ProviderID: m.ProviderID, State: string(m.State), StateAt: m.StateAt, CreatedAt: m.CreatedAt, PoolID: m.PoolID,
		Shape: planShape(m.Shape), Identified: m.ResourceID != "", DrainedBy: m.DrainedBy, Cordoned: m.WasCordoned, IdleSince: m.IdleSince,
		Joined: m.HostID != "", Host: h,
	}
}

func planShape(s store.MachineShape) plan.Shape {
	return plan.Shape{Name: s.Name, Slots: s.Slots(), Arch: s.Arch, Labels: s.Labels}
}

func (g *Manager) planProvider(r store.Provider) plan.Provider {
	p := plan.Provider{
		ID: r.ID, Name: r.Name, Enabled: r.Enabled, Fenced: !r.FencedAt.IsZero(), MaxMachines: r.MaxMachines, IdleTimeout: r.IdleTimeout,
		Cooldown: r.Cooldown, Streak: r.FailureStreak, FailedAt: r.FailedAt, HeldUntil: r.HeldUntil, HoldReason: r.HoldReason,
	}
	if !r.PausedAt.IsZero() {
		p.Paused = strings.TrimSuffix(fmt.Sprintf("by %s, %s", r.PausedBy, r.PauseReason), ", ")
	}
	if g.Image != nil && r.Image.SHA256 == "" {
		p.Preparing = "the image that its machines are made from is not there yet"
	}
	for _, s := range r.Shapes {
		p.Shapes = append(p.Shapes, planShape(s))
	}
	return p
}

// apply writes one action down. One that came too late is decided anew.
func (g *Manager) apply(ctx context.Context, rows []store.Provider, a plan.Action) error {
	var err error
	switch a.Kind {
	case plan.Hold:
		g.Logger.Warn("a provider stands down", "provider", a.ProviderID, "until", a.Until, "reason", a.Reason)
		err = g.Store.HoldProvider(ctx, a.ProviderID, a.Until, a.Reason)
		g.Bus.Publish(events.ProviderChanged, a.ProviderID)
	case plan.Rent:
		err = g.rent(ctx, rows, a)
	case plan.GiveUp:
		g.mu.Lock()
		g.giveUps[a.MachineID] = a.Reason
		g.mu.Unlock()
	case plan.Quarantine:
		_, err = g.move(ctx, a.MachineID, store.MachineQuarantined, store.MachineChange{Message: a.Reason})
	case plan.Drain:
		_, err = g.move(ctx, a.MachineID, store.MachineDraining, store.MachineChange{Message: a.Reason})
	case plan.CancelDrain:
		_, err = g.move(ctx, a.MachineID, store.MachineReady, store.MachineChange{Message: a.Reason})
	case plan.Delete:
		_, err = g.move(ctx, a.MachineID, store.MachineDeleting, store.MachineChange{Message: a.Reason})
	}
	return ignoreMoved(err)
}

// ignoreMoved drops what only says that a row has moved on since it was read.
func ignoreMoved(err error) error {
	if errors.Is(err, store.ErrTransition) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// rent writes the row of a new machine: it exists before anything else does.
func (g *Manager) rent(ctx context.Context, rows []store.Provider, a plan.Action) error {
	limits, _ := g.Limits()
	for _, p := range rows {
		if p.ID != a.ProviderID {
			continue
		}
		for _, s := range p.Shapes {
			if s.Name != a.Shape {
				continue
			}
			id := store.NewID("mac_")
			m, err := g.Store.PlanMachine(ctx, store.Machine{
				ID: id, ProviderID: p.ID, Name: g.name(id), Shape: s, Image: p.Image, PoolID: a.PoolID, DemandAt: a.Since, Reason: a.Reason,
			}, limits.MaxMachines)
			if err != nil {
				return err
			}
			g.Logger.Info("planning a machine", "machine", m.ID, "name", m.Name, "provider", p.Name, "shape", s.Name, "reason", a.Reason)
			if !m.DemandAt.IsZero() {
				g.Metrics.Observe(metrics.MachineStage, m.CreatedAt.Sub(m.DemandAt), metrics.StageDemandToPlanned)
			}
			g.Bus.Publish(events.MachineChanged, m.ID)
			return nil
		}
	}
	return nil
}

// name is unique, a DNS label, and says whose machine it is.
func (g *Manager) name(id string) string {
	return "zoomies-" + g.Fleet + "-" + strings.TrimPrefix(id, "mac_")[:10]
}

// move moves a machine, tells everybody, and counts.
func (g *Manager) move(ctx context.Context, id string, to store.MachineState, c store.MachineChange) (store.Machine, error) {
	m, changed, err := g.Store.TransitionMachine(ctx, id, to, c)
	if err != nil || !changed {
		return m, err
	}
	g.moved(m)
	return m, nil
}

// moved does what follows from any change of a machine's state.
func (g *Manager) moved(m store.Machine) {
	log := g.Logger.Info
	if m.State == store.MachineFailed || m.State == store.MachineQuarantined {
		log = g.Logger.Warn
	}
	log("machine "+string(m.State), "machine", m.ID, "name", m.Name, "resource", m.ResourceID, "message", m.Message)
	g.Bus.Publish(events.MachineChanged, m.ID)
	g.mu.Lock()
	delete(g.giveUps, m.ID)
	name := g.names[m.ProviderID]
	g.mu.Unlock()
	switch m.State {
	case store.MachineBootstrapping:
		g.Metrics.Observe(metrics.MachineStage, m.StateAt.Sub(m.CreatedAt), metrics.StagePlannedToCreated)
	case store.MachineFailed:
		g.Metrics.Inc(metrics.MachinesFailed, name)
		g.Bus.Publish(events.ProviderChanged, m.ProviderID) // its count of failures
	case store.MachineReady:
		if m.StateAt.Equal(m.ReadyAt) {
			g.Metrics.Observe(metrics.MachineStage, m.BootedAt.Sub(m.BuiltAt), metrics.StageCreatedToBooted)
			g.Metrics.Observe(metrics.MachineStage, m.JoinedAt.Sub(m.BootedAt), metrics.StageBootedToJoined)
		}
	default:
	}
	if m.HostID != "" {
		g.Bus.Publish(events.HostChanged, m.HostID)
		g.Changed()
	}
	g.wake.Set()
}

// count sets the gauges.
func (g *Manager) count(rows []store.Provider, machines []store.Machine) {
	names := make(map[string]string, len(rows))
	g.Metrics.Reset(metrics.Machines)
	g.Metrics.Reset(metrics.ProviderHeld)
	for _, r := range rows {
		names[r.ID] = r.Name
		g.Metrics.Set(metrics.ProviderHeld, max(0, r.HeldUntil.Sub(g.Now()).Seconds()), r.Name)
	}
	g.mu.Lock()
	g.names = names
	g.mu.Unlock()
	for _, m := range machines {
		g.Metrics.Add(metrics.Machines, 1, names[m.ProviderID], string(m.State))
	}
}
