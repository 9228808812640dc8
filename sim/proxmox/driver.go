package proxmox

import (
	"context"
	"sync"
)

// Driver makes machines run.
type Driver interface {
	// Start starts a machine. It returns when the machine has power; an error is the text of the failed start. The context ends
	// with the simulation.
	Start(ctx context.Context, vm VM) (Guest, error)
}

// Guest is a machine that runs.
type Guest interface {
	// Shutdown asks the guest to power itself off, as the ACPI button does. It does not wait.
	Shutdown()
	// Kill takes the power away. Done is closed soon after.
	Kill()
	// Done is closed when the machine has no power any more, whoever took it.
	Done() <-chan struct{}
}

// VM is a machine as the hardware sees it.
type VM struct {
	VMID     int
	Name     string
	Node     string
	Cores    int
	MemoryMB int64
	UUID     string // of SMBIOS
	MACs     []string
	// ISO is the attached CD-ROM's content; nil when there is none.
	ISO  []byte
	Disk Disk
}

// Disk is a machine's first disk.
type Disk struct {
	Volume string // its volume id
	Bytes  int64  // its size
	// Image is the SHA-256, in hex, of the image file that it goes back to, and ImageFile where that file is when
	// Options.Dir was given.
	Image, ImageFile string
	// Fresh says that nothing was ever booted from it or from what it was cloned from: the first boot.
	Fresh bool
	// Identity is different for every disk, also when a number is used again.
	Identity string
}

// NullDriver starts machines in which nothing runs.
type NullDriver struct {
	Deaf bool // does not listen to Shutdown
}

// Start starts nothing, at once.
func (d NullDriver) Start(context.Context, VM) (Guest, error) {
	return &nullGuest{deaf: d.Deaf, done: make(chan struct{})}, nil
}

type nullGuest struct {
	deaf bool
	once sync.Once
	done chan struct{}
}

// Shutdown powers off, unless the guest is deaf.
func (g *nullGuest) Shutdown() {
	if !g.deaf {
		g.Kill()
	}
}

// Kill powers off.
func (g *nullGuest) Kill() { g.once.Do(func() { close(g.done) }) }

// Done is closed when it is off.
func (g *nullGuest) Done() <-chan struct{} { return g.done }
