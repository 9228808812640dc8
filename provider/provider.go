// Package provider is the contract of what rents machines: a hypervisor or a cloud that makes a
// machine, says what became of it, and takes it away again. It has no opinions about the fleet:
// when to rent and what to delete is decided by whoever calls it.
//
// A machine's identity is chosen (Allocate) and written down by the caller before anything is
// made. From then on every call is about that identity and may be repeated: Create and Delete look
// at the world, take the next step and return. A caller that died, or whose answer was lost, asks
// again with the same identity and never for a second one.
//
// Nothing is changed or deleted that does not carry the machine's own Mark, read back in the
// same call. A name, a number or a tag is no proof: clones inherit them, and numbers are reused.
package provider

import (
	"context"
	"io"
	"time"
)

// Provider is one connection to something that rents machines. Implementations are safe for
// concurrent use, keep no state that matters across a restart, and pass providertest.Run.
type Provider interface {
	// Kind names the implementation: proxmox.
	Kind() string
	// Capabilities says which optional calls work, whatever the connection's state.
	Capabilities() Capabilities
	// Preflight says what would keep machines from being made, each with its remedy. It returns
	// findings and never fails: that nothing answers is a finding.
	Preflight(ctx context.Context) []Finding
	// Allocate chooses where a machine of that shape would be made, and under which identity. It
	// changes and reserves nothing: two calls may choose the same, so the caller makes them one
	// after the other and writes each answer down. taken are the resources that must not be
	// chosen: those of machines that have a row, and of deleted ones whose tombstone still stands.
	// ErrQuota when no identity or no room is left.
	Allocate(ctx context.Context, shape Shape, taken []Resource) (Resource, error)
	// Create takes the next step towards a complete, powered-on machine: it makes the resource
	// with m's mark, configures it, gives it the config drive and starts it. It may be called in
	// any state that an earlier call, or its loss, has left behind, but not after Settle.
	//
	// ErrForeign says that something without m's mark holds the identity, ErrLocked that it cannot be
	// said whose what holds it is: it is still being made, or was when the making broke off, or the
	// credential may not read this one thing. Neither was touched. ErrConflict says that m's image is
	// not there. Never ErrNotFound.
	Create(ctx context.Context, m Machine) (Step, error)
	// Settle takes away what only the first boot needed: the config drive with its secrets. It is
	// called once the machine has joined, and again until it is Done. It is Done, too, when nothing
	// is under the identity and no drive of it is left. ErrForeign and ErrLocked as in Create.
	Settle(ctx context.Context, m Machine) (Step, error)
	// Inspect says what is there under the identity, with its mark, read fresh and wherever it is by
	// now: r.Zone is a hint, Found has the zone it was found in. ErrNotFound only when it is proved
	// that nothing is. What is there and may not be read is ErrDenied.
	Inspect(ctx context.Context, r Resource) (Found, error)
	// List returns everything that carries a mark of this fleet, and foreign things that wear the
	// names or numbers that only this fleet should. It may lag: absence from it proves nothing. It
	// fails rather than leave out what it could not ask.
	List(ctx context.Context) ([]Found, error)
	// Delete takes the next step towards nothing being left of the machine, its config drive
	// included, also where the machine itself is gone already or never was. Done only after an
	// inspection that proved it gone. ErrForeign says that what holds the identity is not m: neither
	// it nor a drive of that identity was touched. ErrLocked as in Create; ErrConflict says that it
	// is protected. Never ErrNotFound.
	Delete(ctx context.Context, m Machine) (Step, error)
	// Follow says how an operation that a Step named goes. ErrNotFound when it is not known
	// (any more): the world has to be asked instead.
	Follow(ctx context.Context, operation string) (Progress, error)
}

// Imager is a provider that builds what machines are cloned from out of an image file.
type Imager interface {
	// EnsureImage takes the next step towards the image being usable wherever machines may be
	// made. It is idempotent by the image's hash. ErrConflict when it is not there and its file is
	// not at hand, ErrInvalid when the file has another hash.
	EnsureImage(ctx context.Context, img Image) (Step, error)
	// PruneImages takes the next step towards no image of this fleet but keep being left. What machines still
	// stand on, or what does not carry this fleet's mark, stays and is no error. A keep without a hash keeps none.
	PruneImages(ctx context.Context, keep Image) (Step, error)
}

// Discoverer is a provider that can say what a connection offers, for whoever sets it up.
type Discoverer interface {
	Discover(ctx context.Context) (Discovery, error)
}

// Capabilities are the optional parts of a provider.
type Capabilities struct {
	Images   bool // it is an Imager
	Discover bool // it is a Discoverer
	Settle   bool // there is something for Settle to do
}

// Shape is a size of machine that a connection offers.
type Shape struct {
	Name     string            `json:"name"`
	CPUs     int               `json:"cpus"`
	MemoryMB int64             `json:"memory_mb"` // MiB
	DiskGB   int64             `json:"disk_gb"`   // GiB
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity int               `json:"capacity,omitempty"` // runner slots; 0 is one for each CPU
	Arch     string            `json:"arch,omitempty"`     // GOARCH; empty is amd64
}

// Resource is where a machine is: an identity that was chosen in advance.
type Resource struct {
	ID   string `json:"id"`             // in the provider's own words: a VMID
	Zone string `json:"zone,omitempty"` // where: a node
}

// Mark is the ownership record that a resource carries from its birth.
type Mark struct {
	Fleet   string `json:"fleet"`
	Machine string `json:"machine"` // mac_…
	// Resource is the identity that the mark was written for. A copy of a machine carries its
	// mark, and another identity.
	Resource string `json:"resource"`
	Nonce    string `json:"nonce"` // random, from the machine's row
}

// Machine is what a provider needs to know of a machine. Where Mark.Resource is not Resource.ID, or a field of the mark is empty, every
// call that takes one is ErrInvalid.
type Machine struct {
	Mark     Mark
	Resource Resource
	Name     string // a DNS label
	Shape    Shape
	Image    Image // what it is made from; its file need not be there any more
	// Operation is what the last Step named, as it was saved; empty when nothing is under way.
	Operation string
	// ConfigDrive makes the ISO 9660 image that the machine is configured from at its first boot.
	// It holds secrets. It is called at most once in a Create, and only when the drive is to be
	// written: each call may void the secrets of the one before, so the machine must boot from what
	// the last one returned.
	ConfigDrive func(ctx context.Context) ([]byte, error)
}

// Image is an image of the appliance.
type Image struct {
	SHA256 string // of the file, in hex; the image's identity
	Name   string // for people
	Size   int64  // bytes
	// Open opens the file; nil when it is not at hand, and then only an image that is there
	// already can be used.
	Open func() (io.ReadSeekCloser, error)
}

// Step is what a call did; the zero Step beside an error.
type Step struct {
	// Done says that there is nothing left to do. Otherwise the call is to be made again: after
	// Operation has ended where it names one, else after a while.
	Done      bool
	Operation string // to be saved, and followed
	Doing     string // for people, such as "cloning template 9000 to 9104 on node pve1"
}

// Progress is the state of an operation.
type Progress struct {
	Ended bool
	Err   error  // why it failed, in one of the classes of this package; nil while it runs
	Log   string // its last lines, for people
}

// Power is whether a machine runs.
type Power string

// Power states.
const (
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PowerUnknown Power = "unknown"
)

// Found is a resource as the provider sees it.
type Found struct {
	Resource  Resource
	Name      string
	Mark      *Mark // nil when there is none, or none that can be read
	Power     Power
	Locked    string // by what it is locked; empty when it is not
	Template  bool   // it is what machines are made from, not one
	Protected bool   // the provider will not delete it until somebody lifts that
	// Incomplete says that it is being made (or was, when the making broke off): its mark may not
	// be readable yet.
	Incomplete bool
	Drive      bool // a config drive is attached
	CreatedAt  time.Time
}

// Carries says whether f is the machine that m is the mark of: same fleet, machine and nonce, under the identity that the mark was
// written for.
func (f Found) Carries(m Mark) bool {
	return f.Mark != nil && *f.Mark == m && f.Mark.Resource == f.Resource.ID
}

// Severity of a finding.
type Severity string

// Severities: an error keeps machines from being made, a warning does not.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one thing that preflight has to say.
type Finding struct {
	Code     string // a short stable word, such as privilege_missing
	Severity Severity
	Title    string
	Why      string
	Fix      string
	Commands []string // what to run at the provider, one a line
}

// Discovery is what a connection offers.
type Discovery struct {
	Version  string
	Zones    []Zone
	Storages []Storage
	Networks []string
	Pools    []string
	Images   []string // templates that exist
}

// Zone is a place where machines can be made: a node.
type Zone struct {
	Name      string
	Online    bool
	CPUs      int
	MemoryMB  int64
	FreeMB    int64
	LoadShare float64 // of its CPUs, 0 to 1
}

// Storage is a place where disks or images can be kept.
type Storage struct {
	Name    string
	Kind    string
	Content []string
	Shared  bool
	Zones   []string // where it is active
	FreeMB  int64
	TotalMB int64
}
