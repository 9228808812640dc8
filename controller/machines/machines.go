// Package machines rents machines and gives them back: a loop of its own reads rows, has the pure planner decide, and carries the
// decision out step by step at providers, each with workers of its own, so that one that hangs holds up nothing else.
//
// A machine's identity is written down before anything is made, every step is repeated until the world shows what was wanted, and
// nothing is ever taken away but by destroy, which asks the row, the world and the lease first. What cannot be proved to be ours is
// left to an operator.
package machines

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// The constants of the loop. Relations between these and others are held by the controller's invariants_test.go.
const (
	// Interval is the net under the events that wake the loop.
	Interval = 10 * time.Second
	// SweepInterval separates two comparisons of what is at a provider with its rows.
	SweepInterval = 10 * time.Minute
	// Tombstone is how long a deleted machine's identity is given to no other.
	Tombstone = 24 * time.Hour
	// CallLimit bounds one call of a provider.
	CallLimit = 2 * time.Minute
	// ImageLimit bounds one step towards an image, which may be an upload.
	ImageLimit = 30 * time.Minute
	// maxSteps bounds how many steps are taken for a machine without a pause.
	maxSteps = 20
	// perProvider is how many calls are made at one provider at once.
	perProvider = 8
)

// The waits between two steps.
const (
	pollWait       = 2 * time.Second  // while an operation runs, or a step asked to be called again
	watchWait      = 30 * time.Second // while a guest boots: whether its machine is still there
	lookWait       = time.Minute      // whether a failed machine has turned up after all
	retryWait      = 5 * time.Second  // after an error, doubled …
	maxRetryWait   = time.Minute      // … up to this
	settlePatience = 5 * time.Minute  // from the join: then a machine is ready although its drive is still there
)

// Guest is what a config drive is made for.
type Guest struct {
	Machine store.Machine
	Token   string // its join token: single use, bound to the machine's name. A secret
}

// Demand is what the scheduler lacks and what it is about to do, both of one moment.
type Demand struct {
	Needs  []plan.Need
	Coming map[string]int  // runners that are about to be placed, by host
	Closed map[string]bool // hosts that take no runner, cordoned or not: silent, or with a full disk
}

// Options make a Manager. Everything but Image, Lose, Changed, Bus, Metrics, Now and Logger is needed.
type Options struct {
	Store *store.Store
	Fleet string // whose mark machines carry
	// Connect makes the provider of a row. It is called once for each version of the row.
	Connect func(context.Context, store.Provider) (provider.Provider, error)
	// Drive makes the config drive of a machine.
	Drive func(context.Context, Guest) ([]byte, error)
	// Demand says what is needed now.
	Demand func(context.Context) (Demand, error)
	// Lease is an error when this controller does not hold its database (any more): then nothing is made or deleted.
	Lease func(context.Context) error
	// Limits are the limits as they are now, and how long until a provider is swept again (0 is SweepInterval).
	Limits func() (plan.Limits, time.Duration)
	// Image is what new machines of a provider should be made from; nil leaves that to the provider's own configuration.
	Image func(context.Context, store.Provider) (provider.Image, error)
	// Lose gives a host up whose machine is gone: its runners are failed.
	Lose func(ctx context.Context, hostID, why string) error
	// Changed is called when hosts were changed, so that the scheduler looks again.
	Changed func()
	Bus     *events.Bus
	Metrics *metrics.Set
	Now     func() time.Time
	Logger  *slog.Logger
}

// Manager rents machines.
type Manager struct {
	Options
	wake events.Wake // plan anew
	due  events.Wake // look who is due
	crew *crew

	mu      sync.Mutex
	links   map[string]link     // by provider
	giveUps map[string]string   // machines that exceeded a limit, and which
	reviews map[string][]Review // by provider: what its last sweep found
	unmet   []plan.Unmet
	names   map[string]string // of providers
}

// link is a connection for one version of a provider's row.
type link struct {
	version  time.Time
	provider provider.Provider
}

// New prepares a Manager.
func New(o Options) *Manager {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Bus == nil {
		o.Bus = &events.Bus{}
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New()
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Lose == nil {
		o.Lose = func(context.Context, string, string) error { return nil }
	}
	return &Manager{Options: o, wake: events.NewWake(), due: events.NewWake(), crew: newCrew(o.Now),
		links: map[string]link{}, giveUps: map[string]string{}, reviews: map[string][]Review{}}
}

// Wake has the loop decide anew. It never waits.
func (g *Manager) Wake() { g.wake.Set() }

// Run rents and gives back until ctx ends, then waits for the calls in flight. What they came to is found out by the next Run.
func (g *Manager) Run(ctx context.Context) {
	g.wake.Set()
	timer := time.NewTimer(Interval)
	defer timer.Stop()
	defer g.crew.work.Wait()
	next := g.Now()
	for {
		decide := true
		select {
		case <-g.wake.C():
		case <-g.due.C():
			decide = !g.Now().Before(next)
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if decide {
			p, err := g.Pass(ctx)
			if err != nil && ctx.Err() == nil {
				g.Logger.Error("cannot decide about machines", "err", err)
			}
			next = g.Now().Add(Interval)
			if !p.Next.IsZero() && p.Next.Before(next) {
				next = p.Next
			}
		}
		look := next
		jobs, err := g.jobs(ctx)
		if err != nil && ctx.Err() == nil {
			g.Logger.Error("cannot read the machines to work on", "err", err)
		}
		for _, j := range jobs {
			if at := g.crew.spawn(ctx, j, g.finished); !at.IsZero() && at.Before(look) {
				look = at
			}
		}
		timer.Reset(max(look.Sub(g.Now()), time.Millisecond))
	}
}

func (g *Manager) finished(changed bool) {
	if changed {
		g.wake.Set()
	}
	g.due.Set()
}

// Unmet is the capacity that the last pass could not rent, and why.
func (g *Manager) Unmet() []plan.Unmet {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unmet
}

// connect is the provider of a row.
func (g *Manager) connect(ctx context.Context, row store.Provider) (provider.Provider, error) {
	g.mu.Lock()
	l, ok := g.links[row.ID]
	g.mu.Unlock()
	if ok && l.version.Equal(row.UpdatedAt) {
		return l.provider, nil
	}
	p, err := g.Connect(ctx, row)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.links[row.ID] = link{row.UpdatedAt, p}
	return p, nil
}
