// Package scheduler decides how many runners each pool should have, and where. Decide is a pure
// function of a snapshot: no clock, no database, no network, standard library only. Every
// decision carries a sentence that says why.
package scheduler

import "time"

// Snapshot is everything a decision is made from.
type Snapshot struct {
	Now      time.Time
	Pools    []Pool
	Runners  []Runner // live ones, and failed ones that are still retained
	Jobs     []Job    // queued ones (and in progress ones, for the per-repository limit)
	Hosts    []Host
	Tunables Tunables
}

// Tunables are the scheduler's settings. A time that is not positive, other than MaxLifetime,
// takes its default: a setting that nobody filled in must not fail a whole fleet.
type Tunables struct {
	ProvisionTimeout time.Duration // 20 min: provisioning and registering together
	MaxLifetime      time.Duration // retires an idle runner; 0 never
	FailedRetention  time.Duration // 10 min
	StartBackoff     time.Duration // 10 s, doubled per failure …
	MaxStartBackoff  time.Duration // … to 5 min
	TickBudget       int           // creates in one decision; 0 is no limit
	HeartbeatTimeout time.Duration // 90 s
}

// Pool is what the decision needs of a pool.
type Pool struct {
	ID, Name     string
	Labels       []string
	Backend      string
	OS, Arch     string // empty constrains nothing
	HostSelector map[string]string
	Repository   string // when set, only jobs of this repository
	Account      string // whose jobs it serves: an account at a GitHub, through whichever App it is reached
	Installation string // through which its runners register; nothing is decided by it
	Min, Max     int
	Priority     int
	Enabled      bool
	Held         string        // when not empty, why nothing may be created now (GitHub asked us to wait, …)
	HeldUntil    time.Time     // when Held ends, for people to read; zero when nobody knows
	Paused       *Pause        // when somebody wants nothing created for it; what is there goes on
	IdleTimeout  time.Duration // a surplus idle runner leaves after it; 0 is at once
	ScaleUpDelay time.Duration
	MaxLifetime  time.Duration // 0 takes Tunables.MaxLifetime
	RepoLimit    int           // runners one repository may hold at once; 0 is no limit
}

// Runner is what the decision needs of a runner. State uses the store's words.
type Runner struct {
	ID, PoolID, HostID string
	State              string // provisioning, registering, idle, busy, draining, failed
	Repository         string // of its job, or of the demand that made it
	DemandJobID        string // the job whose demand made it; empty for a warm runner or when unknown
	CreatedAt          time.Time
	StateAt            time.Time
	FinishedAt         time.Time // failed only
}

// Job is what the decision needs of a job.
type Job struct {
	ID         string
	Account    string // whose job it is, as pools have it
	Repository string
	Labels     []string
	State      string // queued or in_progress
	QueuedAt   time.Time
}

// Host is what the decision needs of a host.
type Host struct {
	ID, Name      string
	OS, Arch      string // empty when the agent has not said
	Labels        map[string]string
	Backends      []string // usable ones
	Capacity      int
	Cordoned      bool
	Draining      bool // told to empty: its runners are taken out of service, and it gets no new ones
	Lost          bool
	DiskUsed      int // of its fullest filesystem, in percent; 0 when it is not known
	LastHeartbeat time.Time
}

// Plan is what should be done, in the order in which to do it.
type Plan struct {
	Actions   []Action
	Pools     []PoolDecision // one for each pool, sorted by name
	Unmatched []Unmatched    // jobs that no pool can take, and why
	Needs     []Need         // capacity that is wanted and that no host has, sorted by the pools' names
}

// Need is runners that a pool may have and that no host has a free slot for: what more hosts would change.
type Need struct {
	PoolID   string
	Slots    int
	OS, Arch string // what a host has to be, in GOOS and GOARCH; empty constrains nothing
	Backend  string
	Selector map[string]string
	Since    time.Time // when the oldest job that waits for it was queued; zero when none does
}

// Kind names an action.
type Kind string

// The kinds of action, in the order in which a plan lists them.
const (
	Remove   Kind = "remove"   // a failed runner whose retention has passed: take the row away
	Fail     Kind = "fail"     // it did not come online in time
	Retire   Kind = "retire"   // an idle runner past its lifetime, its timeout or its pool
	Withdraw Kind = "withdraw" // a starting runner that nothing needs any more
	Drain    Kind = "drain"    // a busy runner whose host empties: it may finish its job, within the grace of a drain
	Create   Kind = "create"
)

// Action is one thing to do.
type Action struct {
	Kind     Kind
	PoolID   string
	RunnerID string // all but create
	HostID   string // create
	JobID    string // create: the job whose demand it answers; empty for a warm runner
	Reason   string
}

// PoolDecision says what a pool should be and why.
type PoolDecision struct {
	PoolID  string
	Live    int // in the snapshot: provisioning, registering, idle, busy (draining runners accept nothing)
	Desired int
	Queued  int // jobs that wait for this pool
	Reason  string
	// Blocked is set when runners are wanted and cannot be created. An exhausted tick budget is
	// not blocked.
	Blocked *Blocked
}

// Blocked says why a pool cannot have what it wants.
type Blocked struct {
	Wanted     int       // runners that are wanted and cannot be created now
	Causes     []Cause   // hosts by what keeps each from serving, most frequent first
	Fix        string    // what an operator can do, one sentence
	AtCapacity bool      // every host that fits is merely full, or draining runners fill the maximum: a normal state
	Until      time.Time // when a backoff or a hold ends; zero where it does not apply
	Backends   []string  // other backends that fitting hosts offer
	Paused     bool      // somebody wants it so: no trouble, and over when they say so
}

// Cause counts hosts.
type Cause struct {
	What  string // "full", "unhealthy", "cordoned", "no podman", "disk full", "selector", "platform", …
	Hosts int
}

// Unmatched is a job that no pool can take.
type Unmatched struct {
	JobID  string
	Reason string
	// Hosted is set for labels that GitHub's own machines serve: nothing of ours is missing.
	Hosted bool
}
