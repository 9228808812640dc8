// Package github speaks to GitHub as a GitHub App: installation tokens, runner registrations,
// workflow jobs, and the verification and parsing of webhooks. It must never write to the
// store: it is told what to ask, and says what it heard.
package github

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// Errors that callers branch on.
var (
	ErrNameTaken    = errors.New("a runner of that name is registered already")         // 409 on mint
	ErrRunnerBusy   = errors.New("the runner is running a job")                         // 422 on delete
	ErrNotFound     = errors.New("not found at GitHub")                                 // 404
	ErrUnauthorized = errors.New("GitHub refuses the App's credentials or permissions") // 401, 403 without a limit
	ErrUnknown      = errors.New("GitHub's answer was lost")                            // the request may have had its effect
	ErrRefused      = errors.New("GitHub refuses it as things stand")                   // 403, 409, 422 with a reason of its own; see CallError.Reason
	ErrUnusable     = errors.New("GitHub cannot be asked for this installation")        // what is stored of it makes no client; it was not asked
)

// LimitError says that GitHub asked us to wait (primary, secondary, or retry-after).
type LimitError struct {
	Until  time.Time // never more than an hour ahead
	Reason string
}

func (e *LimitError) Error() string {
	return "GitHub rate limit until " + e.Until.UTC().Format(time.RFC3339) + ": " + e.Reason
}

// Config makes a client of one installation.
type Config struct {
	BaseURL        string // REST root; empty is github.com
	AppID          int64
	InstallationID int64
	Account        string // organisation or user
	PrivateKey     secrets.Value
	HTTP           *http.Client // nil is a default with timeouts
	Now            func() time.Time
	Mint           *Governor // shared by every client of one App
}

// Scope is where a runner registers: an organisation, or one repository ("owner/name").
type Scope struct{ Org, Repository string }

// JITRequest asks for one registration.
type JITRequest struct {
	Name       string
	Labels     []string
	GroupID    int64 // 0 is 1, the default group
	WorkFolder string
}

// JIT is a minted registration.
type JIT struct {
	RunnerID int64
	Config   secrets.Value // the encoded JIT configuration
}

// StatusOffline is the Status of a registration whose runner is not connected.
const StatusOffline = "offline"

// Registration is a runner as GitHub lists it.
type Registration struct {
	ID     int64
	Name   string
	Status string // online, offline
	Busy   bool
	Labels []string
}

// API is what the controller asks of GitHub. *Client implements it.
type API interface {
	MintJIT(ctx context.Context, s Scope, r JITRequest) (JIT, error)
	RegistrationToken(ctx context.Context, s Scope) (token secrets.Value, expires time.Time, err error)
	ListRunners(ctx context.Context, s Scope) ([]Registration, error)
	FindRunner(ctx context.Context, s Scope, name string) (Registration, error) // ErrNotFound
	DeleteRunner(ctx context.Context, s Scope, id int64) error                  // nil on 404; ErrRunnerBusy
	// ActiveJobs lists jobs that are queued, waiting or in progress in every repository of the installation.
	ActiveJobs(ctx context.Context) ([]JobState, error)
	Job(ctx context.Context, repository string, id int64) (JobState, error)
	// RerunJob has a completed job run again, as a job of its own, with those that depend on it. ErrRefused says why not.
	RerunJob(ctx context.Context, repository string, id int64) error
	// CancelRun has a workflow run cancelled, with all of its jobs. ErrRefused says why not.
	CancelRun(ctx context.Context, repository string, runID int64) error
}

// JobState is a workflow job as GitHub says it, from a webhook, a list or a single read.
type JobState struct {
	GitHubID    int64
	RunID       int64
	RunAttempt  int64
	Repository  string
	Workflow    string
	Name        string
	Labels      []string
	Status      string // queued, waiting, in_progress, completed
	Conclusion  string
	RunnerID    int64
	RunnerName  string
	HTMLURL     string
	CreatedAt   time.Time
	StartedAt   time.Time
	CompletedAt time.Time
}
