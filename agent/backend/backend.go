// Package backend says what a host needs from whatever turns a runner into a real process:
// a container engine or the operating system itself. It holds the contract and the labels;
// backend/podman, backend/docker and backend/process implement it, and
// backend/backendtest holds the suite that each of them must pass.
//
// A backend must never decide: it does what it is asked and says what it sees.
package backend

import (
	"context"
	"errors"
	"io"
	"time"
)

// Labels on every workload (container labels; the process backend keeps them in a file).
const (
	LabelManaged = "io.zoomies.managed" // "true"
	LabelRunner  = "io.zoomies.runner"  // the runner's ID
	LabelPool    = "io.zoomies.pool"    // the pool's ID
	LabelHost    = "io.zoomies.host"    // the host's ID: agents that share an engine see only their own
	LabelRole    = "io.zoomies.role"    // "runner" or "daemon" (the sidecar)
)

// The roles of a workload.
const (
	RoleRunner = "runner"
	RoleDaemon = "daemon"
)

// Errors that the agent branches on.
var (
	ErrNotFound = errors.New("no such workload")
	// ErrExists says that a workload of that name or runner exists already.
	ErrExists = errors.New("a workload of that name exists already")
	// ErrUnavailable says that the engine did not answer: a transport failure, not an
	// answer. Only this opens the agent's cooldown.
	ErrUnavailable = errors.New("the container engine does not answer")
	// ErrImage says that the image could not be had.
	ErrImage = errors.New("cannot get the image")
)

// Backend starts, watches and removes workloads. Implementations are safe for concurrent use.
// All calls honour their context. Ids are the workload's own (container ID).
type Backend interface {
	// Name is podman, docker or process.
	Name() string
	// Probe asks the engine what it is and can do.
	Probe(ctx context.Context) (Info, error)
	// Prepare makes image present, by policy (missing, always, never).
	Prepare(ctx context.Context, image, policy string) error
	// Create makes and starts a workload, its daemon first when the spec asks for one. When it
	// fails nothing of it is left. A workload of the same runner makes it ErrExists.
	Create(ctx context.Context, spec Spec) (Workload, error)
	// List returns the managed workloads of this host in every phase, sidecars included.
	List(ctx context.Context) ([]Workload, error)
	// Inspect returns one workload, or ErrNotFound.
	Inspect(ctx context.Context, id string) (Workload, error)
	// Stop asks the workload to end and kills it after grace. It is nil when it has ended.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Remove deletes a workload with its sidecar, volumes and scratch, killing what runs. It
	// is nil when there is nothing left to remove.
	Remove(ctx context.Context, id string) error
	// Logs returns stdout and stderr, demultiplexed into one stream.
	Logs(ctx context.Context, id string, opts LogOptions) (io.ReadCloser, error)
	// Stats samples a running workload.
	Stats(ctx context.Context, id string) (Stats, error)
	// Watch sends an event for every workload of ours that starts or ends, until ctx ends or
	// the engine's stream breaks (the channel is then closed). Events may be lost: the
	// agent's timer is the net.
	Watch(ctx context.Context) (<-chan Event, error)
}

// ImageStore is a backend that keeps images. It is asked for by a type assertion: the process backend has none.
type ImageStore interface {
	// HasImage says whether the engine has an image of that name. What was seen within the last minute is believed.
	HasImage(ctx context.Context, ref string) (bool, error)
	// ImageID is the ID of the image that has that name now; "" when none has.
	ImageID(ctx context.Context, ref string) (string, error)
	// Images lists every image of the engine, whoever brought it, those without a name too.
	Images(ctx context.Context) ([]Image, error)
	// RemoveImage takes a name off an image, or with an ID deletes one that has no name, and deletes what has then neither name
	// nor user. It never forces: an image that a container uses, running or not, stays, and that is an error. It is nil when
	// there is no such image.
	RemoveImage(ctx context.Context, refOrID string) error
}

// Image is an image that an engine keeps.
type Image struct {
	ID     string
	Names  []string // as the engine spells them, with their tags; none for one whose name has moved to another
	SizeMB int64    // MiB, of all its layers, also those that others share
	InUse  bool     // some container is made of it
}

// Info is what a probe found.
type Info struct {
	Version     string
	Rootless    bool
	OS, Arch    string  // of the engine: linux, GOARCH
	CPUs        float64 // cores the engine's machine has
	MemoryMB    int64
	CPULimit    bool // limits that the engine can apply
	MemoryLimit bool
	PidsLimit   bool
	CgroupV2    bool
	// StorageDir is where the engine keeps images and containers, as a path of the engine's own machine; "" when it does not say.
	StorageDir string
}

// Spec is a workload to start.
type Spec struct {
	Name     string // unique on the host; the runner's name
	HostID   string
	RunnerID string
	PoolID   string
	Image    string
	Policy   string // pull policy: missing, always, never
	Command  []string
	// Env carries the JIT configuration too, so it is a secret.
	Env       map[string]string
	CPUs      float64 // cores; 0 none
	MemoryMB  int64   // MiB; 0 none
	PidsLimit int64   // 0 is the backend's own default
	Network   string  // "" is bridge
	ReadOnly  bool    // read-only root with tmpfs where the runner writes
	Daemon    *Daemon // sidecar, nil for none
}

// Daemon is the sidecar that a job's image builds run in.
type Daemon struct {
	Kind  string // docker, podman
	Image string
	Wait  time.Duration // how long it may take until it answers
}

// Phase of a workload.
type Phase string

// The phases.
const (
	Created Phase = "created"
	Running Phase = "running"
	Exited  Phase = "exited"
)

// Workload is a runner or a sidecar as the engine sees it.
type Workload struct {
	ID        string
	Name      string
	RunnerID  string
	PoolID    string
	Role      string
	Phase     Phase
	ExitCode  int // when exited
	OOMKilled bool
	CreatedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
}

// LogOptions choose what Logs returns.
type LogOptions struct {
	Follow bool
	Tail   int // lines from the end; 0 is all
}

// Stats is one sample of a workload.
type Stats struct {
	At       time.Time
	CPUTime  time.Duration // used since start
	MemoryMB int64
}

// Event says that a workload changed.
type Event struct {
	ID       string
	RunnerID string
	Phase    Phase
}
