// Package host measures the machine that an agent runs on: its size as far as the agent's own
// cgroup allows it, its load and its disk. It reads and never changes anything, and a figure
// that cannot be had is zero.
package host

import "time"

// Machine is what can be measured of a host.
type Machine interface {
	// Size is what the machine is, and how much of it this process may use.
	Size() Size
	// Load is how busy it is now.
	Load() Load
	// Disk is how much an ordinary user may ever write to the filesystem that holds path, and how
	// much of that is free, in MiB. What is reserved for root counts for neither, as in df.
	Disk(path string) (totalMB, freeMB int64)
	// BootTime is when the machine was started; zero when it is unknown.
	BootTime() time.Time
}

// Size is a machine's platform and the share of it that this process may use.
type Size struct {
	OS, Arch string  // GOOS, GOARCH
	Distro   string  // os-release's PRETTY_NAME
	CPUs     float64 // cores
	MemoryMB int64   // MiB
}

// Load is a machine's load.
type Load struct {
	Load1             float64
	CPUUsed           float64 // share of the whole machine since the call before, 0 to 1
	MemoryAvailableMB int64   // MiB a new process could take
}
