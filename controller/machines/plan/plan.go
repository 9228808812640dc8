// Package plan decides which machines to rent, to drain, to keep and to give back. Make is a pure function of a snapshot: no clock, no
// database, no provider, standard library only. Every action carries a sentence that says why.
//
// It never acts on a quarantined machine, and what it asks for is checked again where it is carried out.
package plan

import "time"

// The states of a machine, in the store's words.
const (
	planned       = "planned"
	creating      = "creating"
	starting      = "starting"
	bootstrapping = "bootstrapping"
	enrolling     = "enrolling"
	ready         = "ready"
	draining      = "draining"
	deleting      = "deleting"
	deleted       = "deleted"
	failed        = "failed"
	quarantined   = "quarantined"
)

// Snapshot is everything a decision is made from.
type Snapshot struct {
	Now       time.Time
	Limits    Limits
	Providers []Provider
	Machines  []Machine
	Needs     []Need
}

// Limits are the fleet's own, and how long each stage may last. A time that is not positive takes its default.
type Limits struct {
	Enabled     bool // otherwise nothing is rented
	MaxMachines int  // that exist at once, in the whole fleet; 0 rents nothing

	Create time.Duration // from its row until it runs
	Boot   time.Duration // until its guest is heard from
	Enrol  time.Duration // until it has joined
	Delete time.Duration // until it is proved gone; then it is quarantined
	Failed time.Duration // how long a failed machine stays to be looked at, and looked for
	Lost   time.Duration // how long a machine's host may be lost until the machine is given back

	StandDown    time.Duration // the wait after StandDownAfter failures in a row, doubled with each further one …
	MaxStandDown time.Duration // … up to this
}

// The defaults.
const (
	CreateLimit  = 30 * time.Minute
	BootLimit    = 10 * time.Minute
	EnrolLimit   = 5 * time.Minute
	DeleteLimit  = time.Hour
	FailedLimit  = 10 * time.Minute
	LostLimit    = 15 * time.Minute
	StandDown    = time.Minute
	MaxStandDown = 30 * time.Minute

	// StandDownAfter is how many machines in a row may fail until their provider is given a rest.
	StandDownAfter = 3
	// DefaultIdleTimeout is for a provider that has none of its own.
	DefaultIdleTimeout = 10 * time.Minute
)

// DefaultLimits are those of a fleet that set none. It rents nothing.
func DefaultLimits() Limits { return Limits{}.filled() }

func (l Limits) filled() Limits {
	for d, or := range map[*time.Duration]time.Duration{
		&l.Create: CreateLimit, &l.Boot: BootLimit, &l.Enrol: EnrolLimit, &l.Delete: DeleteLimit, &l.Failed: FailedLimit, &l.Lost: LostLimit,
		&l.StandDown: StandDown, &l.MaxStandDown: MaxStandDown,
	} {
		if *d <= 0 {
			*d = or
		}
	}
	return l
}

// Provider is what the decision needs of a provider.
type Provider struct {
	ID, Name    string
	Enabled     bool
	Paused      string // who paused it and why; empty while it is not. It stops creation only
	Fenced      bool   // its rows may be older than the world: nothing is made or deleted
	Preparing   string // what it still lacks before a machine can be made, such as its image; empty when nothing
	MaxMachines int    // 0 rents nothing
	IdleTimeout time.Duration
	Cooldown    time.Duration // between two machines that are planned
	Streak      int           // machines that failed in a row
	FailedAt    time.Time     // the last of them
	HeldUntil   time.Time
	HoldReason  string
	Backends    []string // of its machines; none is podman alone
	Shapes      []Shape
}

// Shape is a size of machine that a provider offers.
type Shape struct {
	Name   string
	Slots  int
	Arch   string // GOARCH; empty is amd64
	Labels map[string]string
}

// Machine is what the decision needs of a machine.
type Machine struct {
	ID, Name   string
	ProviderID string
	State      string
	StateAt    time.Time
	CreatedAt  time.Time
	Shape      Shape
	PoolID     string
	Identified bool   // its identity was written down: something may exist
	DrainedBy  string // the operator who drains it; empty for one that was idle
	Cordoned   bool   // an operator had its host cordoned before it was drained
	IdleSince  time.Time
	Joined     bool // it is a host, or was
	Host       *Host
}

// Host is the host that a machine became; a joined machine without one has lost it.
type Host struct {
	Runners int // live ones on it
	Coming  int // that the scheduler is about to place on it
	LostAt  time.Time
	Closed  bool // it takes no runner, cordoned or not: its agent is silent, or its disk full
}

// Need is runner slots that a pool wants and no host has.
type Need struct {
	PoolID, Pool string
	Slots        int
	OS, Arch     string // empty constrains nothing
	Backend      string
	Selector     map[string]string // labels that a host must have
	Since        time.Time
}

// Kind names an action.
type Kind string

// The kinds of action, in the order in which a plan lists them.
const (
	Hold        Kind = "hold"         // have a provider stand down until Until
	Quarantine  Kind = "quarantine"   // a delete that cannot be proved: leave it to an operator
	GiveUp      Kind = "give up"      // it exceeded its stage's limit: look what is there, and fail or quarantine it
	CancelDrain Kind = "cancel drain" // demand came back
	Rent        Kind = "rent"         // write the row of a new machine
	Drain       Kind = "drain"        // it was idle long enough
	Delete      Kind = "delete"       // it is of no use any more
)

// Action is one thing to do.
type Action struct {
	Kind       Kind
	MachineID  string // all but hold and rent
	ProviderID string
	Shape      string    // rent
	PoolID     string    // rent: whose demand
	Since      time.Time // rent: since when that waits
	Until      time.Time // hold
	Reason     string
}

// Plan is what should be done, in the order in which to do it, and what cannot be.
type Plan struct {
	Actions []Action
	Unmet   []Unmet
	// Next is when something will have to be decided without anything having happened; zero when nothing will.
	Next time.Time
}

// Unmet is capacity that is needed and not rented.
type Unmet struct {
	PoolID string
	Slots  int
	Reason string
	// Never is set when no shape of any provider could serve the pool, whatever is waited for.
	Never bool
}
