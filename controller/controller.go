// Package controller wires the fleet together: it takes in what GitHub and the agents say,
// lets pure functions decide, and applies what they decided. Every loop here is woken by events;
// its timer only catches what an event missed. It must never run a workload or write SQL.
package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/machines"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/tasks"
)

// Relations between these and the constants of other rooms are held by invariants_test.go.
const (
	// HostLostAfter is when a silent host's runners are given up.
	HostLostAfter = 5 * time.Minute
	// HousekeepingTick is how often silence is judged and clean-up is retried.
	HousekeepingTick = 30 * time.Second
	// ReapInterval separates two comparisons of registrations with rows; the first comes ReapDelay after start.
	ReapInterval = 10 * time.Minute
	ReapDelay    = time.Minute
	// DrainGrace is how long a busy runner that is draining may go on with its job.
	DrainGrace = 5 * time.Minute
	// StopGrace is what a runner gets between the stop signal and the kill.
	StopGrace = 30 * time.Second
	// ExitGrace is how long an ephemeral runner may outlive its completed job before it is removed.
	ExitGrace = time.Minute
	// LeaseTTL is how long a controller's lease on the database lasts without a renewal.
	LeaseTTL = 30 * time.Second
)

// Options make a controller.
type Options struct {
	Store    *store.Store
	Settings Settings
	Holder   store.Holder // this process, as the lease row names it
	// GitHub makes the client of an installation; clients are kept until the installation changes.
	GitHub  func(store.Installation) (github.API, error)
	Version string
	// Reload reads the settings anew, for ApplySettings; nil reads none.
	Reload func(context.Context) (Settings, error)
	// Findings are what is questionable about the settings that this controller runs with.
	Findings []config.Finding
	// Machines has machines rented; nil rents none.
	Machines *Machines
	Now      func() time.Time
	Logger   *slog.Logger
}

// Controller is one running control plane.
type Controller struct {
	store    *store.Store
	set      atomic.Pointer[Settings] // see settings
	holder   store.Holder
	clients  *clients
	reload   func(context.Context) (Settings, error)
	version  string
	now      func() time.Time
	log      *slog.Logger
	fleet    string // prefix of every runner name, so that two fleets in one organisation never touch each other's
	started  time.Time
	bus      *events.Bus
	queue    *tasks.Queue
	metrics  *metrics.Set
	problems *problems.Set
	gone     goneProblems // problems whose dismissals are to be forgotten
	said     sayer

	reconcile events.Wake
	provision events.Wake
	cleanup   events.Wake
	poll      events.Wake
	drains    events.Wake
	// dismissals wakes the loop that forgets the dismissals of problems that have gone.
	dismissals events.Wake

	minting  *crew // runners whose registration is being minted
	retiring *crew // runners that are being withdrawn or retired
	cleaning *crew // ended runners whose registration and workload are being deleted
	polling  *crew // installations that are being polled
	reaping  *crew // installations whose registrations are being compared with rows
	asking   *crew // jobs in doubt (see exits.go)
	exits    *exits
	links    *links
	relay    *relay.Hub        // output of runners that somebody watches
	rented   *machines.Manager // nil where no machines are rented

	passMu   sync.Mutex // one pass at a time: two would each create what one decided
	scrapeMu sync.Mutex // one scrape of the metrics at a time
	warmMu   sync.Mutex // one prewarm at a time: two would each ask for what is asked already

	stoodDown atomic.Bool // another controller has taken the database
	waitingMu sync.Mutex
	waiting   map[string]bool // pools for which jobs were queued in the last pass; replaced, never changed

	work sync.WaitGroup
}

// New prepares a controller over an open store. It reads the fleet's identity, or makes it.
func New(ctx context.Context, o Options) (*Controller, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	fleet, err := fleetID(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		store: o.Store, holder: o.Holder, version: o.Version,
		clients: newClients(o.GitHub), reload: o.Reload, now: o.Now, log: o.Logger, fleet: fleet,
		started: o.Now(), bus: &events.Bus{}, metrics: metrics.New(),
		queue:     tasks.New(o.Store, o.Now, o.Logger),
		reconcile: events.NewWake(), provision: events.NewWake(), cleanup: events.NewWake(), poll: events.NewWake(), drains: events.NewWake(),
		dismissals: events.NewWake(),
		minting:    newCrew(o.Now, mintersPerInstallation), retiring: newCrew(o.Now, retirersPerInstallation),
		cleaning: newCrew(o.Now, cleanersPerInstallation), polling: newCrew(o.Now, 1), reaping: newCrew(o.Now, 1),
		asking: newCrew(o.Now, 1), exits: newExits(), links: newLinks(),
	}
	c.Apply(o.Settings)
	if o.Machines != nil {
		c.rented = c.newManager(*o.Machines)
	}
	c.relay = relay.New(c.nobodyWatches)
	c.problems = problems.NewSet(o.Now, c.problemChanged)
	c.problems.RaiseFindings(o.Findings)
	c.minting.wake, c.retiring.wake, c.cleaning.wake = &c.provision, &c.reconcile, &c.cleanup
	return c, nil
}

// fleetSetting keeps the fleet's identity in the database, so that a restored copy is the same fleet.
const fleetSetting = "internal.fleet_id"

func fleetID(ctx context.Context, st *store.Store) (string, error) {
	all, err := st.Settings(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read the fleet's identity: %w", err)
	}
	if id := all[fleetSetting]; id != "" {
		return id, nil
	}
	id := store.NewID("")[:6]
	if err := st.SetSetting(ctx, fleetSetting, id); err != nil {
		return "", fmt.Errorf("cannot write the fleet's identity: %w", err)
	}
	return id, nil
}

// Events is where row changes are announced.
func (c *Controller) Events() *events.Bus { return c.bus }

// Run runs every loop until ctx ends, then waits for the work in flight. Runners are left running.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	master, resign := context.WithCancel(ctx) // ends when another controller takes the database
	defer resign()
	for _, l := range []func(context.Context){
		c.reconcileLoop, c.provisionLoop, c.cleanupLoop, c.housekeepingLoop, c.pollLoop, c.reapLoop, c.exitsLoop, c.drainLoop, c.dismissalLoop,
		func(ctx context.Context) { c.queue.Reap(ctx, c.taskRequeued, c.taskDropped) },
	} {
		g.Go(func() error { l(master); return nil })
	}
	if c.rented != nil {
		g.Go(func() error { c.rented.Run(master); return nil })
	}
	g.Go(func() error { c.leaseLoop(ctx, resign); return nil })
	c.reconcile.Set()
	c.provision.Set()
	c.cleanup.Set()
	c.poll.Set() // which also gets the installations' tokens before the first job needs one
	err := g.Wait()
	c.work.Wait()
	c.relay.Close(relay.End{Reason: relay.Broken, Message: "The controller stops. Watch again when it is back."})
	return err
}

// every calls f when woken, and after interval at the latest, until ctx ends.
func every(ctx context.Context, interval time.Duration, wake <-chan struct{}, f func(context.Context)) {
	everyOf(ctx, func() time.Duration { return interval }, wake, f)
}

// everyOf is every with an interval that may change.
func everyOf(ctx context.Context, interval func() time.Duration, wake <-chan struct{}, f func(context.Context)) {
	t := time.NewTimer(interval())
	defer t.Stop()
	for {
		select {
		case <-wake:
		case <-t.C:
		case <-ctx.Done():
			return
		}
		f(ctx)
		t.Reset(interval())
	}
}
