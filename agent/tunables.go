package agent

import "time"

// The agent's constants. The relations between them and the controller's own (leases,
// provision timeout, health ladder) are what the invariant tests pin.
const (
	// PollWait is how long one poll asks the controller to wait for a task.
	PollWait = 30 * time.Second
	// HeartbeatInterval is the pace until the controller hands out another.
	HeartbeatInterval = 30 * time.Second
	// SweepInterval is the net under the backends' events.
	SweepInterval = 5 * time.Second
	// ReportInterval is the net under reports that are sent because something changed.
	ReportInterval = 30 * time.Second

	// StartConcurrency is how many creates or prewarms a host admits at once.
	StartConcurrency = 1
	// CreateTimeout bounds one create, from admission, when the task names no bound. It is
	// below the controller's create lease.
	CreateTimeout = 10 * time.Minute
	// PrewarmTimeout bounds one prewarm.
	PrewarmTimeout = 15 * time.Minute
	// StopMargin is what a stop may take beyond its grace.
	StopMargin = time.Minute
	// RemoveTimeout bounds one removal. It is below the controller's remove lease.
	RemoveTimeout = 2 * time.Minute
	// LifecycleConcurrency is how many stops and removals run at once.
	LifecycleConcurrency = 32
	// PrewarmReuse is how long a successful preparation answers for an equal one.
	PrewarmReuse = time.Minute

	// CooldownMin and CooldownMax bound how long starts are held after the engine did not
	// answer: the first hold, and the most that doubling makes of it.
	CooldownMin = 5 * time.Second
	CooldownMax = time.Minute

	// MissingGrace is how long a runner may be absent from its engine's list before it is
	// declared gone.
	MissingGrace = time.Minute
	// OrphanGrace is how long a workload that nothing claims is let live.
	OrphanGrace = 2 * time.Minute
	// FinishedRetention is how long an ended workload stays until the controller hands out
	// another value.
	FinishedRetention = 0 * time.Second
	// ShutdownGrace is how long a stopping agent waits for the tasks in flight.
	ShutdownGrace = 30 * time.Second

	// SampleInterval, SampleTimeout, SamplePass and SampleConcurrency pace the resource
	// samples: how often, how long one may take, how long all may take, how many at once.
	SampleInterval    = 30 * time.Second
	SampleTimeout     = 5 * time.Second
	SamplePass        = 20 * time.Second
	SampleConcurrency = 4

	// EvictAbove and EvictDownTo are how full, in percent, the filesystem of an engine's storage must be for images to be
	// evicted, and how full it may be when that ends.
	EvictAbove  = 85
	EvictDownTo = 75
	// ImageKeep is how long an image that was used or fetched beforehand stays, however full the disk.
	ImageKeep = 30 * time.Minute
	// EvictTimeout bounds the listing of an engine's images, and the removal of one.
	EvictTimeout = 2 * time.Minute

	// MaxLogStreams is how many log relays a host serves at once.
	MaxLogStreams = 32
	// ListTimeout and ProbeTimeout bound the questions asked of an engine on a timer.
	ListTimeout  = 20 * time.Second
	ProbeTimeout = 10 * time.Second
	// CallTimeout bounds one call to the controller that should be answered at once.
	CallTimeout = 30 * time.Second

	// RetryMin and RetryMax bound the wait after a call to the controller failed.
	RetryMin = 500 * time.Millisecond
	RetryMax = 30 * time.Second
	// RefusedMin and RefusedMax bound the wait after the controller refused a credential.
	RefusedMin = time.Minute
	RefusedMax = 10 * time.Minute
	// ResultTimeout is how long an answer is offered to a controller that cannot be reached:
	// three create leases, after which no controller waits for it.
	ResultTimeout = time.Hour
)

// InventoryRetries are the waits before an uncertain inventory is asked again: three more
// times over seventeen seconds.
var InventoryRetries = []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}
