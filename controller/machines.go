package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/machines"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// Machines is what a controller needs to rent machines.
type Machines struct {
	// Connect makes the provider of a row.
	Connect func(context.Context, store.Provider) (provider.Provider, error)
	// Drive makes the config drive of a machine.
	Drive func(context.Context, machines.Guest) ([]byte, error)
	// Image is what new machines should be made from; nil leaves that to the provider's own configuration.
	Image func(context.Context, store.Provider) (provider.Image, error)
}

// Rented is the manager of rented machines; nil where none are rented.
func (c *Controller) Rented() *machines.Manager { return c.rented }

func (c *Controller) newManager(o Machines) *machines.Manager {
	return machines.New(machines.Options{
		Store: c.store, Fleet: c.fleet, Connect: o.Connect, Drive: o.Drive, Image: o.Image,
		Demand: c.machineDemand, Lease: c.holdsLease, Lose: c.loseMachineHost, Changed: c.reconcile.Set,
		Limits: func() (plan.Limits, time.Duration) { s := c.settings(); return s.Machines, s.SweepInterval },
		Bus:    c.bus, Metrics: c.metrics, Now: c.now, Logger: c.log,
	})
}

// machineDemand is what a scheduling decision of this moment lacks and is about to place. It is decided anew: the last pass may not
// have seen a host that a machine has become since.
func (c *Controller) machineDemand(ctx context.Context) (machines.Demand, error) {
	snap, err := c.snapshot(ctx)
	if err != nil {
		return machines.Demand{}, err
	}
	names := make(map[string]string, len(snap.Pools))
	for _, p := range snap.Pools {
		names[p.ID] = p.Name
	}
	p := scheduler.Decide(snap)
	d := machines.Demand{Coming: map[string]int{}, Closed: map[string]bool{}}
	for i := range snap.Hosts {
		h := &snap.Hosts[i]
		d.Closed[h.ID] = h.DiskFull() || snap.Now.Sub(h.LastHeartbeat) >= snap.Tunables.HeartbeatTimeout
	}
	for _, a := range p.Actions {
		if a.Kind == scheduler.Create {
			d.Coming[a.HostID]++
		}
	}
	for _, n := range p.Needs {
		d.Needs = append(d.Needs, plan.Need{
			PoolID: n.PoolID, Pool: names[n.PoolID], Slots: n.Slots, OS: n.OS, Arch: n.Arch, Backend: n.Backend, Selector: n.Selector, Since: n.Since,
		})
	}
	return d, nil
}

// holdsLease is asked before anything is made or deleted at a provider.
func (c *Controller) holdsLease(ctx context.Context) error {
	if c.stoodDown.Load() {
		return errStoodDown
	}
	if c.holder.ID == "" {
		return nil
	}
	return c.store.CheckHolder(ctx, c.holder.ID)
}

// loseMachineHost gives a host up whose machine is gone: nothing that ran there can come back.
func (c *Controller) loseMachineHost(ctx context.Context, hostID, why string) error {
	h, err := c.store.Host(ctx, hostID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.store.MarkHostLost(ctx, h.ID); err != nil {
		return err
	}
	if err := c.abandonHost(ctx, h, fmt.Sprintf("host %s: %s", h.Name, why)); err != nil {
		return fmt.Errorf("cannot give host %s up: %w", h.Name, err)
	}
	return nil
}
