package store

import (
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// RunnerState is where a runner is in its life.
type RunnerState string

// The states of a runner. Removed and failed are terminal.
const (
	RunnerProvisioning RunnerState = "provisioning" // the row exists, the workload does not
	RunnerRegistering  RunnerState = "registering"  // the workload runs, GitHub has not seen it
	RunnerIdle         RunnerState = "idle"         // registered, waiting for a job
	RunnerBusy         RunnerState = "busy"         // executing a job
	RunnerDraining     RunnerState = "draining"     // told to take no more work and to exit
	RunnerFailed       RunnerState = "failed"
	RunnerRemoved      RunnerState = "removed"
)

// JobState is where a workflow job is in its life, in GitHub's own words.
type JobState string

// The states of a job. Queued and waiting (a deployment gate) may alternate; nothing leaves
// completed.
const (
	JobWaiting    JobState = "waiting"
	JobQueued     JobState = "queued"
	JobInProgress JobState = "in_progress"
	JobCompleted  JobState = "completed"
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. Done, failed and cancelled are terminal.
const (
	TaskPending   TaskState = "pending"
	TaskLeased    TaskState = "leased"
	TaskDone      TaskState = "done"
	TaskFailed    TaskState = "failed"
	TaskCancelled TaskState = "cancelled"
)

// Installation is one GitHub App installation: whom the fleet serves, and how it proves itself.
type Installation struct {
	ID             string
	Name           string // display name, unique
	BaseURL        string // REST API root; empty is github.com, else a GHES "https://host/api/v3"
	AppID          int64
	InstallationID int64
	Account        string // organisation or user login
	AccountType    string // Organization or User
	PrivateKey     secrets.Value
	WebhookSecret  secrets.Value
	HoldUntil      time.Time // GitHub asked us to wait until then; zero is no hold
	HoldReason     string
	LastDeliveryAt time.Time // the last webhook credited to this installation
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Pool says which jobs get which runners.
type Pool struct {
	ID             string
	Name           string // unique
	InstallationID string
	Repository     string // "owner/name" registers at that repository; empty at the organisation
	RunnerGroupID  int64  // 0 is the default group (1)
	Labels         []string
	Backend        string
	Image          string
	PullPolicy     string // missing, always, never
	OS, Arch       string // platform; empty constrains nothing
	HostSelector   map[string]string
	Min, Max       int
	Priority       int // higher first
	Enabled        bool
	Ephemeral      bool
	IdleTimeout    time.Duration
	ScaleUpDelay   time.Duration
	MaxLifetime    time.Duration // 0 is none
	RepoLimit      int           // runners one repository may hold at once; 0 is no limit
	CPUs           float64
	MemoryMB       int64
	PidsLimit      int64
	Network        string
	ReadOnly       bool
	Daemon         string // sidecar: "", docker, podman
	DaemonImage    string
	Env            map[string]string
	PausedAt       time.Time // zero while it is not: a paused pool starts no runner
	PauseReason    string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Host is a machine whose agent runs runners.
type Host struct {
	ID              string
	Name            string // unique
	Embedded        bool
	OS, Arch        string
	Distro          string
	AgentVersion    string
	CPUs            float64
	MemoryMB        int64
	DiskTotalMB     int64
	DiskFreeMB      int64
	Capacity        int
	Labels          map[string]string
	Backends        []HostBackend
	Cordoned        bool
	Draining        bool // told to empty; also cordoned
	LastHeartbeatAt time.Time
	LostAt          time.Time // zero while it is not lost
	JoinedAt        time.Time
}

// HostBackend is one backend of a host, as its probe found it. Error is empty when it can be used.
type HostBackend struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Rootless    bool   `json:"rootless,omitempty"`
	CPULimit    bool   `json:"cpu_limit"`
	MemoryLimit bool   `json:"memory_limit"`
	Error       string `json:"error,omitempty"`
}

// JoinToken admits one host once.
type JoinToken struct {
	ID        string
	Hash      string // SHA-256 of the token; the token itself is shown once
	HostName  string // when set, only a host of that name may use it, and it may take the name over
	Embedded  bool   // for the controller's own agent
	ExpiresAt time.Time
	UsedAt    time.Time
	UsedBy    string // host ID
	CreatedAt time.Time
}

// Job is a workflow job at GitHub. GitHubID is unique among the installations of one BaseURL.
type Job struct {
	ID             string
	InstallationID string
	GitHubID       int64
	RunID          int64
	RunAttempt     int64
	Repository     string // owner/name
	Workflow       string
	Name           string
	Labels         []string
	State          JobState
	Conclusion     string // GitHub's; set when completed
	RunnerID       string // ours, when it ran on ours
	RunnerName     string // GitHub's word for it
	FleetFault     string // why the fleet, not the workflow, failed this job; empty if it did not
	HTMLURL        string
	QueuedAt       time.Time // GitHub's created_at, or when we first heard of it
	SeenAt         time.Time // when we first heard of it
	StartedAt      time.Time
	CompletedAt    time.Time
	CheckedAt      time.Time // last time GitHub itself confirmed the state (webhook, poll or check)
}

// JobUpdate is what a delivery, a poll or a check says of a job. Zero fields say nothing.
type JobUpdate struct {
	InstallationID string
	GitHubID       int64
	RunID          int64
	RunAttempt     int64
	Repository     string
	Workflow       string
	Name           string
	Labels         []string
	State          JobState
	Conclusion     string
	RunnerName     string
	HTMLURL        string
	QueuedAt       time.Time
	StartedAt      time.Time
	CompletedAt    time.Time
	// Authoritative is set when GitHub was asked just now (poll, check): then queued and
	// waiting are taken as said. A delivery may be late, but the two still alternate freely.
	Authoritative bool
}

// JobChange is what an upsert did.
type JobChange struct {
	Job      Job
	Previous JobState // "" when the row is new
	Changed  bool     // the state moved, or the row is new
}

// Runner is one runner's row. It exists before its workload, and outlives it.
type Runner struct {
	ID             string
	Name           string // at GitHub and on the host; unique
	PoolID         string
	HostID         string
	InstallationID string
	Repository     string // "owner/name" it registers at; empty at the organisation
	Backend        string
	Image          string
	State          RunnerState
	Message        string // why it is in this state, a sentence
	Reason         string // why it was created, the scheduler's sentence
	GitHubID       int64  // registration; 0 until minted
	DemandJobID    string // the job whose demand made it; JIT runners are fungible
	JobID          string // the job it runs or ran
	WorkloadID     string
	Ephemeral      bool
	CPUs           float64 // what it was given; 0 no limit
	MemoryMB       int64
	ExitCode       *int
	OOMKilled      bool
	CreatedAt      time.Time
	StateAt        time.Time // last change of state (a repeated state does not move it)
	StartedAt      time.Time // workload start
	RegisteredAt   time.Time // first entry to idle or busy
	BusyAt         time.Time // first entry to busy
	DrainAt        time.Time // entry to draining
	FinishedAt     time.Time // first entry to a terminal state, stamped once
	Deregistered   bool      // its registration is known to be gone
	Cleaned        bool      // its workload is known to be gone
}

// Task is one durable piece of work for a host.
type Task struct {
	ID         string
	HostID     string
	RunnerID   string
	Kind       string
	Payload    []byte // JSON; sealed at rest, since a create carries a JIT configuration; gone once the task has ended
	State      TaskState
	Attempt    int // deliveries so far
	Result     string
	CreatedAt  time.Time
	OfferedAt  time.Time
	LeaseUntil time.Time
	EndedAt    time.Time
}

// Delivery is one webhook delivery.
type Delivery struct {
	ID             string // GitHub's GUID
	InstallationID string // credited to; empty while nobody owns the repository
	Event          string
	Action         string
	GitHubJobID    int64
	ReceivedAt     time.Time
	Outcome        string // what came of it, a word or a sentence
}

// HostUpdate is what a join or a heartbeat says of a host.
type HostUpdate struct {
	AgentVersion string
	OS, Arch     string
	Distro       string
	CPUs         float64
	MemoryMB     int64
	DiskTotalMB  int64
	DiskFreeMB   int64
	Capacity     int
	Labels       map[string]string
	Backends     []HostBackend
}

// Holder identifies a controller process that holds the lease on a database.
type Holder struct {
	ID        string // random per process
	Machine   string // the machine it runs on, whatever its name; see ThisProcess
	Host      string // that machine's name, for people
	PID       int
	RenewedAt time.Time
	ExpiresAt time.Time
}
