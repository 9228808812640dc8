package store

import (
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// MachineState is where a rented machine is in its life.
type MachineState string

// The states of a machine. Deleted is the only one that is finished with.
const (
	MachinePlanned       MachineState = "planned"       // the row exists, nothing has been made
	MachineCreating      MachineState = "creating"      // its identity is written down; a create may or may not have happened
	MachineStarting      MachineState = "starting"      // the resource exists
	MachineBootstrapping MachineState = "bootstrapping" // it is powered on, and its guest has not been heard from
	MachineEnrolling     MachineState = "enrolling"     // its guest is up and joins
	MachineReady         MachineState = "ready"         // it is a host
	MachineDraining      MachineState = "draining"      // cordoned, until its runners are gone; can be reversed
	MachineDeleting      MachineState = "deleting"      // a delete may have been issued, and is not proved
	MachineDeleted       MachineState = "deleted"       // proved gone, or released by an operator
	MachineFailed        MachineState = "failed"        // given up; its resource may exist
	MachineQuarantined   MachineState = "quarantined"   // whose it is cannot be said; nothing automatic touches it
)

// validMachineTransitions is the allow-list of the machine state machine.
var validMachineTransitions = map[MachineState][]MachineState{
	MachinePlanned:       {MachineCreating, MachineFailed},
	MachineCreating:      {MachineStarting, MachineBootstrapping, MachineFailed, MachineQuarantined},
	MachineStarting:      {MachineBootstrapping},
	MachineBootstrapping: {MachineEnrolling, MachineFailed},
	MachineEnrolling:     {MachineReady, MachineFailed},
	MachineReady:         {MachineDraining, MachineDeleting, MachineQuarantined},
	MachineDraining:      {MachineReady, MachineDeleting},
	MachineDeleting:      {MachineDeleted, MachineQuarantined},
	MachineFailed:        {MachineDeleting},
	MachineQuarantined:   {MachineDeleted},
	MachineDeleted:       {},
}

// CanTransitionMachine says whether a machine may go from one state to another. The same state again is always legal; a state that
// does not exist never is.
func CanTransitionMachine(from, to MachineState) bool {
	moves, known := validMachineTransitions[from]
	if _, exists := validMachineTransitions[to]; !known || !exists {
		return false
	}
	return from == to || slices.Contains(moves, to)
}

// coming says whether a machine in this state is on its way to be a host, and has an identity: it may still join.
func (s MachineState) coming() bool {
	return s == MachineCreating || s == MachineStarting || s == MachineBootstrapping || s == MachineEnrolling
}

// Provider is one connection to something that rents machines.
type Provider struct {
	ID          string
	Name        string // unique
	Kind        string
	Config      string        // JSON in the kind's own words, without secrets
	Secret      secrets.Value // its credential
	Shapes      []MachineShape
	Enabled     bool
	PausedAt    time.Time // zero while it is not: a paused provider makes no machine, and deletes as ever
	PausedBy    string
	PauseReason string
	MaxMachines int // most machines that exist at once; 0 rents nothing
	IdleTimeout time.Duration
	Cooldown    time.Duration // between two machines that are planned; 0 is none
	// FailureStreak counts machines that failed in a row, FailedAt is when the last of them did.
	FailureStreak int
	FailedAt      time.Time
	HeldUntil     time.Time // no machine is planned until then
	HoldReason    string
	// FencedAt is when the database was found to be older than the world: until every row has been proved again, nothing is
	// made or deleted. Zero while it is not fenced.
	FencedAt    time.Time
	FenceReason string
	Image       MachineImage // what new machines are made from
	SweptAt     time.Time    // when what is there was last compared with the rows
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// MachineShape is a size of machine that a connection offers.
type MachineShape struct {
	Name     string            `json:"name"`
	CPUs     int               `json:"cpus"`
	MemoryMB int64             `json:"memory_mb"`
	DiskGB   int64             `json:"disk_gb"`
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity int               `json:"capacity,omitempty"` // runner slots; 0 is one for each CPU
	Arch     string            `json:"arch,omitempty"`     // GOARCH; empty is amd64
}

// Slots is how many runners a machine of that shape holds.
func (s MachineShape) Slots() int {
	if s.Capacity > 0 {
		return s.Capacity
	}
	return max(s.CPUs, 1)
}

// MachineImage is what a machine is made from. Without a hash, the connection's own template.
type MachineImage struct {
	SHA256 string `json:"sha256,omitempty"`
	Name   string `json:"name,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes
}

// Machine is one rented machine's row. It exists before the resource, and outlives it until that is proved gone.
type Machine struct {
	ID          string
	ProviderID  string
	Name        string // a DNS label, unique; the host joins under it
	State       MachineState
	StateAt     time.Time // last change of state
	Message     string    // why it is in this state, a sentence
	Reason      string    // why it was planned, the planner's sentence
	Shape       MachineShape
	Image       MachineImage
	ResourceID  string // the identity that was chosen in advance; empty while it is planned
	Zone        string
	Nonce       string // random; part of the mark by which the resource is known as ours
	Operation   string // under way at the provider; empty when none is
	Doing       string // what was last done, for people
	Attempts    int    // steps towards its creation that were asked for
	PoolID      string // whose demand it was planned for
	DemandAt    time.Time
	JoinTokenID string
	HostID      string // set when it joined
	DrainedBy   string // the operator who drains it; empty for one that was idle
	WasCordoned bool   // its host was cordoned before it was drained
	Settled     bool   // what only the first boot needed is gone
	CreatedAt   time.Time
	CreatingAt  time.Time // the identity was written down
	BuiltAt     time.Time // the resource was seen to exist and run
	BootedAt    time.Time // its guest was first heard from
	JoinedAt    time.Time
	ReadyAt     time.Time
	FirstJobAt  time.Time
	IdleSince   time.Time // no runner is on it since then; zero while one is
	ProvedAt    time.Time // the provider last said what is, or is not, under its identity
	FinishedAt  time.Time // first entry to failed or deleted, stamped once
	DeletedAt   time.Time
	ReleasedBy  string // the operator who released it from quarantine, leaving the resource to themselves
}
