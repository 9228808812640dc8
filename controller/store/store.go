package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// Errors that callers branch on.
var (
	ErrNotFound   = errors.New("not found")
	ErrConflict   = errors.New("conflict")                       // a unique name or an outstanding task exists
	ErrTransition = errors.New("transition is not allowed")      // outside the allow-list; nothing changed
	ErrTokenSpent = errors.New("join token is spent or expired") // or unknown
	ErrLeaseHeld  = errors.New("another controller holds the database")
	ErrLeaseLost  = errors.New("another controller took the database")
)

// Options open a store.
type Options struct {
	Path   string // database file; made 0600 when it does not exist
	Keys   *secrets.Keyring
	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil is slog.Default
}

type Store struct{}

func Open(ctx context.Context, o Options) (*Store, error) { panic("not written yet") }
func (s *Store) Close() error                             { panic("not written yet") }

// ---- one controller per database
// LockFile takes <path>.lock or returns an error wrapping ErrLeaseHeld that names host and pid.
func LockFile(path string) (release func() error, err error) { panic("not written yet") }

// AcquireLease: same Host as the current holder => reclaimed at once; other host and not expired => ErrLeaseHeld (naming host, pid), unless takeover.
func (s *Store) AcquireLease(ctx context.Context, h Holder, ttl time.Duration, takeover bool) error {
	panic("not written yet")
}

// ErrLeaseLost names who
func (s *Store) RenewLease(ctx context.Context, holderID string, ttl time.Duration) error {
	panic("not written yet")
}
func (s *Store) ReleaseLease(ctx context.Context, holderID string) error { panic("not written yet") }

// ---- installations
func (s *Store) CreateInstallation(ctx context.Context, in Installation) (Installation, error) {
	panic("not written yet")
}
func (s *Store) UpdateInstallation(ctx context.Context, in Installation) error {
	panic("not written yet")
}
func (s *Store) Installation(ctx context.Context, id string) (Installation, error) {
	panic("not written yet")
}
func (s *Store) Installations(ctx context.Context) ([]Installation, error) { panic("not written yet") }
func (s *Store) DeleteInstallation(ctx context.Context, id string) error   { panic("not written yet") }

// never shortens
func (s *Store) HoldInstallation(ctx context.Context, id string, until time.Time, reason string) error {
	panic("not written yet")
}

// ---- pools
func (s *Store) CreatePool(ctx context.Context, p Pool) (Pool, error)      { panic("not written yet") }
func (s *Store) UpdatePool(ctx context.Context, p Pool) error              { panic("not written yet") }
func (s *Store) Pool(ctx context.Context, id string) (Pool, error)         { panic("not written yet") }
func (s *Store) PoolByName(ctx context.Context, name string) (Pool, error) { panic("not written yet") }
func (s *Store) Pools(ctx context.Context) ([]Pool, error)                 { panic("not written yet") }

// ErrConflict while it has live runners
func (s *Store) DeletePool(ctx context.Context, id string) error { panic("not written yet") }

// ---- hosts
func (s *Store) CreateJoinToken(ctx context.Context, t JoinToken) (JoinToken, error) {
	panic("not written yet")
}

// JoinHost spends the token and makes or renews the host in one transaction. A host that joins again under its name
// keeps its ID, gets the new token hash, and every live runner row recorded against it goes to failed; those are returned.
func (s *Store) JoinHost(ctx context.Context, joinTokenHash, name, agentTokenHash string, u HostUpdate) (Host, []Runner, error) {
	panic("not written yet")
}

// ErrNotFound when either is wrong
func (s *Store) HostByToken(ctx context.Context, hostID, agentTokenHash string) (Host, error) {
	panic("not written yet")
}

// clears LostAt; disk free written only when moved by >1/20 or >256 MB
func (s *Store) Heartbeat(ctx context.Context, hostID string, u HostUpdate) (Host, error) {
	panic("not written yet")
}
func (s *Store) Host(ctx context.Context, id string) (Host, error) { panic("not written yet") }
func (s *Store) Hosts(ctx context.Context) ([]Host, error)         { panic("not written yet") }
func (s *Store) SetHostCordoned(ctx context.Context, id string, cordoned bool) error {
	panic("not written yet")
}
func (s *Store) MarkHostLost(ctx context.Context, id string) error { panic("not written yet") }
func (s *Store) DeleteHost(ctx context.Context, id string) error   { panic("not written yet") }

// ---- jobs
// UpsertJob never moves a job backwards: rank waiting=queued < in_progress < completed; queued and waiting alternate.
// completed keeps its first conclusion. RunAttempt: a re-run is a new GitHub job id, hence a new row.
func (s *Store) UpsertJob(ctx context.Context, u JobUpdate) (JobChange, error) {
	panic("not written yet")
}

// IngestDelivery records the delivery and applies u (nil for none) in one transaction, and credits the installation's
// LastDeliveryAt. fresh is false for a GUID seen before; then nothing changes.
func (s *Store) IngestDelivery(ctx context.Context, d Delivery, u *JobUpdate) (fresh bool, c JobChange, err error) {
	panic("not written yet")
}
func (s *Store) Job(ctx context.Context, id string) (Job, error) { panic("not written yet") }
func (s *Store) JobByGitHubID(ctx context.Context, installationID string, githubID int64) (Job, error) {
	panic("not written yet")
}

type JobFilter struct {
	States        []JobState
	Installation  string
	CheckedBefore time.Time // only jobs whose CheckedAt is before; zero is all
	Limit         int
}

// oldest QueuedAt first, then GitHubID
func (s *Store) Jobs(ctx context.Context, f JobFilter) ([]Job, error)       { panic("not written yet") }
func (s *Store) SetJobFleetFault(ctx context.Context, id, why string) error { panic("not written yet") }

// ---- runners
// provisioning, one transaction
func (s *Store) CreateRunners(ctx context.Context, rs []Runner) error  { panic("not written yet") }
func (s *Store) Runner(ctx context.Context, id string) (Runner, error) { panic("not written yet") }
func (s *Store) RunnerByName(ctx context.Context, name string) (Runner, error) {
	panic("not written yet")
}

type RunnerFilter struct {
	States                         []RunnerState // empty is all
	Live                           bool          // neither removed nor failed
	HostID, PoolID, InstallationID string
	NeedsCleanup                   bool // terminal, and not both Deregistered and Cleaned
	FinishedBefore                 time.Time
	Limit                          int
}

// by CreatedAt, ID
func (s *Store) Runners(ctx context.Context, f RunnerFilter) ([]Runner, error) {
	panic("not written yet")
}

// Change carries what comes with a transition. Zero fields leave the row as it is.
type Change struct {
	Message    string
	JobID      string
	WorkloadID string
	StartedAt  time.Time
	ExitCode   *int
	OOMKilled  bool
}

// TransitionRunner moves a runner along the allow-list of the specification. The same state again is legal and changes
// nothing, not even StateAt (but fills WorkloadID, ExitCode, JobID where they were empty). A move outside the list is ErrTransition and changes nothing.
func (s *Store) TransitionRunner(ctx context.Context, id string, to RunnerState, c Change) (Runner, bool, error) {
	panic("not written yet")
}

// AssignJob links a job to the runner of that name and moves the runner to busy, in one transaction; the runner may already be draining (then only linked).
func (s *Store) AssignJob(ctx context.Context, jobID, runnerID string) (Runner, bool, error) {
	panic("not written yet")
}

// EnqueueCreate records the minted registration on the runner and writes its create task in one transaction. ErrConflict when the runner is no longer
// provisioning or already has a create task.
func (s *Store) EnqueueCreate(ctx context.Context, runnerID string, githubID int64, t Task) (Task, error) {
	panic("not written yet")
}
func (s *Store) SetRunnerGitHubID(ctx context.Context, id string, githubID int64) error {
	panic("not written yet")
}
func (s *Store) SetRunnerMessage(ctx context.Context, id, message string) error {
	panic("not written yet")
}
func (s *Store) SetRunnerDeregistered(ctx context.Context, id string) error { panic("not written yet") }
func (s *Store) SetRunnerCleaned(ctx context.Context, id string) error      { panic("not written yet") }

// only terminal rows; others are ErrConflict
func (s *Store) DeleteRunners(ctx context.Context, ids []string) error { panic("not written yet") }

// RunnersWithoutCreate are live provisioning rows that have no create task in any state: minting was never finished.
func (s *Store) RunnersWithoutCreate(ctx context.Context) ([]Runner, error) { panic("not written yet") }

// ---- tasks: every transition is one conditional UPDATE that touches exactly one row
// (existing, false) when the same runner+kind is outstanding (pending or leased)
func (s *Store) EnqueueTask(ctx context.Context, t Task) (Task, bool, error) {
	panic("not written yet")
}

// LeaseTask leases the oldest pending task of the host: stops and removes first, then creates, then the rest. ttl by kind. nil,nil when none.
func (s *Store) LeaseTask(ctx context.Context, hostID string, ttl func(kind string) time.Duration) (*Task, error) {
	panic("not written yet")
}

// FinishTask ends a leased task of that host and attempt. ErrConflict otherwise; a repeated answer of the same attempt is nil with changed=false.
func (s *Store) FinishTask(ctx context.Context, hostID, taskID string, attempt int, ok bool, result string) (Task, bool, error) {
	panic("not written yet")
}

// pending only
func (s *Store) CancelTasks(ctx context.Context, runnerID string, kinds ...string) (int, error) {
	panic("not written yet")
}

// ExpireLeases puts back (pending) every task whose lease ended and that was offered fewer than maxOffers(kind) times, fails the rest, and returns both.
func (s *Store) ExpireLeases(ctx context.Context, maxOffers func(kind string) int) (requeued, dropped []Task, err error) {
	panic("not written yet")
}
func (s *Store) NextLeaseEnd(ctx context.Context) (time.Time, bool, error)  { panic("not written yet") }
func (s *Store) Task(ctx context.Context, id string) (Task, error)          { panic("not written yet") }
func (s *Store) Tasks(ctx context.Context, runnerID string) ([]Task, error) { panic("not written yet") }
func (s *Store) FailHostTasks(ctx context.Context, hostID, why string) (int, error) {
	panic("not written yet")
}

// ---- settings (the database layer of the configuration)
func (s *Store) Settings(ctx context.Context) (map[string]string, error) { panic("not written yet") }
func (s *Store) SetSetting(ctx context.Context, key, value string) error { panic("not written yet") }
func (s *Store) DeleteSetting(ctx context.Context, key string) error     { panic("not written yet") }

// ---- housekeeping
// ended tasks, deliveries, completed jobs and removed+cleaned runners older than before
func (s *Store) Prune(ctx context.Context, before time.Time) (int, error) { panic("not written yet") }

// Rekey re-encrypts every sealed column with the keyring's newest key, in batches; safe to interrupt and run again. It returns how many values were rewritten.
func (s *Store) Rekey(ctx context.Context) (int, error) { panic("not written yet") }
