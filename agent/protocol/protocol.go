// Package protocol holds the wire types that the controller and the agent share, and the
// interface through which an agent reaches a controller. It must never import either half.
//
// The agent always connects outward: it joins, sends heartbeats, long-polls for tasks, and
// posts results, reports and logs. The controller never dials an agent.
package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"time"
)

// Version is the protocol's own version, sent by both sides on join and heartbeat.
const Version = 1

// Routes of the agent API, below the controller's base URL.
const (
	PathJoin      = "/api/v1/agent/join"
	PathHeartbeat = "/api/v1/agent/heartbeat"
	PathTasks     = "/api/v1/agent/tasks"        // GET, long poll; ?wait=<seconds>
	PathResult    = "/api/v1/agent/tasks/result" // POST
	PathReports   = "/api/v1/agent/reports"      // POST
	PathLogs      = "/api/v1/agent/logs/"        // POST, + stream ID, chunked body
)

// Errors that both halves branch on. The HTTP transport maps each to a status code and back.
var (
	// ErrUnauthorized says that the controller does not know the credential (401). An agent
	// that receives it has been deleted or replaced and must not retry with it in a loop.
	ErrUnauthorized = errors.New("the controller does not accept this credential")
	// ErrConflict says that what was said does not fit the state the controller holds (409):
	// a result for a task whose lease has gone to another attempt, a runner of another host.
	ErrConflict = errors.New("the controller holds another state")
)

// Controller is what an agent may ask of a controller. It is implemented by the controller
// itself (the embedded agent calls it in-process) and by the agent's HTTP client.
type Controller interface {
	// Join trades a single-use join token for the host's identity. The same request again, until
	// the token expires, gets the same answer: one whose answer was lost is simply repeated.
	Join(ctx context.Context, req JoinRequest) (JoinResponse, error)
	// Heartbeat says that the host is alive and what it measured.
	Heartbeat(ctx context.Context, cred Credential, hb Heartbeat) (HeartbeatResponse, error)
	// Poll waits up to wait for a task and leases it to the caller. It returns nil, nil when
	// there was none. A host makes one poll at a time, and may say in its context which tasks it
	// holds (see WithHeld). ErrConflict says that another run of an agent polls as this host.
	Poll(ctx context.Context, cred Credential, wait time.Duration) (*Task, error)
	// Result answers a task. It is idempotent per (task, attempt).
	Result(ctx context.Context, cred Credential, res TaskResult) error
	// Report says what the host sees of its runners. The response lists the runners whose
	// end the controller has recorded, which the agent may then delete.
	Report(ctx context.Context, cred Credential, reports []RunnerReport) (ReportResponse, error)
	// SendLogs streams a runner's output to the viewers of stream until r ends or the
	// controller says that nobody is watching any more.
	SendLogs(ctx context.Context, cred Credential, stream string, r io.Reader) error
}

// Credential identifies a joined host, and the run of its agent that speaks. Token is a secret.
type Credential struct {
	HostID string
	Token  string
	// Instance is chosen at random by each run of an agent. A poll from another one than before
	// tells the controller that whatever it had handed out is in nobody's hands any more.
	Instance string
}

// String hides the token.
func (c Credential) String() string { return c.HostID }

// GoString hides the token.
func (c Credential) GoString() string { return c.HostID }

// JoinRequest is the body of a join.
type JoinRequest struct {
	Token string `json:"token"` // zoojoin_…, single use
	Name  string `json:"name"`  // host name; joining again under it keeps the host's ID
	// AgentTokenHash is HashAgentToken of the agent token that the agent has chosen, and keeps,
	// before it asks for the first time. It makes the join repeatable: whoever asks again with it
	// is the host that the join token was spent for. It is what a controller stores of a token
	// anyway, so the join tells it less than an answer that carried the token. Empty has the
	// controller choose the token, and such a join cannot be repeated.
	AgentTokenHash string   `json:"agent_token_hash,omitempty"`
	Version        string   `json:"version"`
	Protocol       int      `json:"protocol"`
	Host           HostInfo `json:"host"`
}

// JoinResponse carries the host's identity.
type JoinResponse struct {
	HostID string `json:"host_id"`
	// AgentToken is set by a controller that chose the token itself, and then holds.
	AgentToken        string  `json:"agent_token,omitempty"`
	HeartbeatInterval Seconds `json:"heartbeat_interval_s"`
}

// HashAgentToken is the SHA-256 of an agent token in hex, which says nothing of a token that is
// random enough (256 bits).
func HashAgentToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// ValidHash says whether s is a SHA-256 in lower-case hex.
func ValidHash(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == s
}

// HostInfo describes a host: what it is and what it can run.
type HostInfo struct {
	OS       string  `json:"os"`   // linux
	Arch     string  `json:"arch"` // GOARCH: amd64, arm64
	Distro   string  `json:"distro,omitempty"`
	CPUs     float64 `json:"cpus"`      // cores the engine can use
	MemoryMB int64   `json:"memory_mb"` // MiB the engine can use
	// The fullest filesystem that runners write to, in MiB; a size of zero says that none could be measured.
	DiskTotalMB int64             `json:"disk_total_mb"`
	DiskFreeMB  int64             `json:"disk_free_mb"`
	Capacity    int               `json:"capacity"` // runner slots the host offers
	Labels      map[string]string `json:"labels,omitempty"`
	Backends    []BackendInfo     `json:"backends"`
}

// BackendInfo is one backend of a host, as its probe found it.
type BackendInfo struct {
	Name     string `json:"name"` // podman, docker, process
	Version  string `json:"version,omitempty"`
	Rootless bool   `json:"rootless,omitempty"`
	// Which limits the engine has shown that it can apply.
	CPULimit    bool   `json:"cpu_limit"`
	MemoryLimit bool   `json:"memory_limit"`
	Error       string `json:"error,omitempty"` // why it cannot be used now; empty when healthy
}

// Heartbeat says that a host lives. Measurements only, never a decision.
type Heartbeat struct {
	Version string   `json:"version"`
	Host    HostInfo `json:"host"`
	Load1   float64  `json:"load1"`
	// CPUUsed is the share of the whole machine in use, 0 to 1; MemoryAvailableMB what a new
	// workload could take. Both are zero where the agent cannot measure.
	CPUUsed           float64       `json:"cpu_used"`
	MemoryAvailableMB int64         `json:"memory_available_mb"`
	Usage             []RunnerUsage `json:"usage,omitempty"`
	// Holds are the runners that the host has, starting ones too. Counted says that the list is complete: every backend has
	// answered. Without it, absence from the list means nothing.
	Holds   []string `json:"holds,omitempty"`
	Counted bool     `json:"counted,omitempty"`
}

// RunnerUsage is the latest sample of one runner.
type RunnerUsage struct {
	RunnerID string    `json:"runner_id"`
	At       time.Time `json:"at"`
	CPUs     float64   `json:"cpus"` // cores in use
	MemoryMB int64     `json:"memory_mb"`
}

// HeartbeatResponse tells the agent what the controller wants of the host.
type HeartbeatResponse struct {
	HeartbeatInterval Seconds `json:"heartbeat_interval_s"`
	Cordoned          bool    `json:"cordoned"` // start no new runner
}

// TaskKind names what a task asks for.
type TaskKind string

// The kinds of task.
const (
	TaskCreate     TaskKind = "create_runner"
	TaskStop       TaskKind = "stop_runner"
	TaskRemove     TaskKind = "remove_runner"
	TaskPrewarm    TaskKind = "prewarm"
	TaskStreamLogs TaskKind = "stream_logs"
	TaskCancelLogs TaskKind = "cancel_logs"
)

// Task is one piece of work for a host. Exactly one of the payload fields is set, by kind.
type Task struct {
	ID       string   `json:"id"`
	Kind     TaskKind `json:"kind"`
	RunnerID string   `json:"runner_id,omitempty"`
	// Attempt counts deliveries, from 1. On the first delivery of a create no workload of
	// that runner can exist; on a later one it may.
	Attempt    int           `json:"attempt"`
	LeaseUntil time.Time     `json:"lease_until"`
	Create     *CreateRunner `json:"create,omitempty"`
	Stop       *StopRunner   `json:"stop,omitempty"`
	Prewarm    *Prewarm      `json:"prewarm,omitempty"`
	Logs       *StreamLogs   `json:"logs,omitempty"`
}

// CreateRunner is everything a host needs to start one runner.
type CreateRunner struct {
	Name       string            `json:"name"` // the runner's name at GitHub and the container's
	PoolID     string            `json:"pool_id"`
	Pool       string            `json:"pool"`
	Backend    string            `json:"backend"`
	Image      string            `json:"image"`
	PullPolicy string            `json:"pull_policy"` // missing (default), always, never
	JITConfig  string            `json:"jit_config,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	// Registration is set instead of JITConfig for a pool that is not ephemeral.
	Registration *Registration `json:"registration,omitempty"`
	CPUs         float64       `json:"cpus,omitempty"`      // cores; 0 is no limit
	MemoryMB     int64         `json:"memory_mb,omitempty"` // MiB; 0 is no limit
	PidsLimit    int64         `json:"pids_limit,omitempty"`
	Network      string        `json:"network,omitempty"` // bridge (default), host, none, or a network's name
	ReadOnly     bool          `json:"read_only,omitempty"`
	// Daemon is the sidecar that jobs may build images with: "" none, "docker", "podman".
	Daemon      string  `json:"daemon,omitempty"`
	DaemonImage string  `json:"daemon_image,omitempty"`
	DaemonWait  Seconds `json:"daemon_wait_s,omitempty"`
	// Timeout bounds image preparation and start, counted from admission.
	Timeout Seconds `json:"timeout_s"`
}

// Registration is what a runner that is not ephemeral registers with. Token is a secret.
type Registration struct {
	URL    string   `json:"url"`
	Token  string   `json:"token"`
	Labels []string `json:"labels"`
	Group  string   `json:"group,omitempty"`
}

// StopRunner asks for a graceful end.
type StopRunner struct {
	Grace Seconds `json:"grace_s"` // from the stop signal to the kill
}

// Prewarm asks a host to fetch an image before it is needed.
type Prewarm struct {
	Backend    string `json:"backend"`
	Image      string `json:"image"`
	PullPolicy string `json:"pull_policy"`
}

// StreamLogs asks for a runner's output; Stream is where to post it.
type StreamLogs struct {
	Stream string `json:"stream"`
	Follow bool   `json:"follow"`
	Tail   int    `json:"tail,omitempty"` // lines; 0 is all
}

// TaskResult answers one delivery of a task.
type TaskResult struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"` // a sentence for the Runners page
	// WorkloadID is the container's or process's own name, set by a create.
	WorkloadID string `json:"workload_id,omitempty"`
	// StartedAt is when the workload was started, by the host's clock.
	StartedAt time.Time `json:"started_at,omitzero"`
}

// Phase is what a host sees of a workload.
type Phase string

// The phases.
const (
	PhaseRunning Phase = "running"
	PhaseExited  Phase = "exited"
	PhaseMissing Phase = "missing" // it was here and is not any more
)

// RunnerReport is what a host says of one of its runners. An agent asserts no state for a
// live runner: State is empty, "registering" once its create succeeded, or "removed" or
// "failed" once the workload has ended.
type RunnerReport struct {
	RunnerID   string `json:"runner_id"`
	State      string `json:"state,omitempty"`
	Phase      Phase  `json:"phase"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	OOMKilled  bool   `json:"oom_killed,omitempty"`
	Message    string `json:"message,omitempty"`
	WorkloadID string `json:"workload_id,omitempty"`
}

// ReportResponse lists runners whose end the controller has recorded, or does not know: the
// agent may delete their workloads once the finished retention has passed.
type ReportResponse struct {
	Finished          []string `json:"finished,omitempty"`
	FinishedRetention Seconds  `json:"finished_retention_s"`
}

// Seconds is a duration that travels as a JSON number of seconds.
type Seconds float64

// Duration converts s; what no duration can hold becomes the longest or the shortest.
func (s Seconds) Duration() time.Duration {
	switch ns := float64(s) * float64(time.Second); {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(ns)
	}
}

// SecondsOf converts d.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }
