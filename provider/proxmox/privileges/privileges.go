// Package privileges is the table of what the connection to a Proxmox VE may do there, and so of what its token must be granted. Both
// the preflight, which looks whether the token has it, and the gateway's installer, which grants it, go by this table. It must never
// hold a privilege that no call of ours needs.
package privileges

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scope is what a privilege is needed on.
type Scope string

// The scopes.
const (
	OnPool    Scope = "pool"    // the resource pool that machines are made in
	OnStorage Scope = "storage" // each storage that holds disks, images or config drives
	OnBridge  Scope = "bridge"  // the bridge that machines are connected to
)

// Scopes lists them.
var Scopes = []Scope{OnPool, OnStorage, OnBridge}

// Path is the object of that name as Proxmox's access control has it.
func (s Scope) Path(name string) string {
	switch s {
	case OnPool:
		return "/pool/" + name
	case OnStorage:
		return "/storage/" + name
	default:
		return "/sdn/zones/localnetwork/" + name
	}
}

// Role is the name of the role with what is needed on that scope.
func (s Scope) Role() string {
	switch s {
	case OnPool:
		return "ZoomiesPool"
	case OnStorage:
		return "ZoomiesStorage"
	default:
		return "ZoomiesBridge"
	}
}

// Need is one privilege.
type Need struct {
	Privilege string
	On        Scope
	For       string  // what fails without it
	Since     Version // zero is always
	Before    Version // zero is to this day
}

// Needs is the table. Nothing differs between 8.3 and 9.2 so far: the privileges of the guest agent, which do, are none of ours.
var Needs = []Need{
	{Privilege: "VM.Allocate", On: OnPool, For: "make and delete machines"},
	{Privilege: "VM.Clone", On: OnPool, For: "clone the template"},
	{Privilege: "VM.Audit", On: OnPool, For: "see machines and their configuration"},
	{Privilege: "VM.Config.CDROM", On: OnPool, For: "attach and detach the config drive"},
	{Privilege: "VM.Config.CPU", On: OnPool, For: "set the number of CPUs"},
	{Privilege: "VM.Config.Disk", On: OnPool, For: "grow the disk, and set what is booted"},
	{Privilege: "VM.Config.HWType", On: OnPool, For: "set the controller, firmware and serial console"},
	{Privilege: "VM.Config.Memory", On: OnPool, For: "set the memory"},
	{Privilege: "VM.Config.Network", On: OnPool, For: "connect a machine to the bridge"},
	{Privilege: "VM.Config.Options", On: OnPool, For: "set name, tags and the mark of ownership"},
	{Privilege: "VM.PowerMgmt", On: OnPool, For: "start and stop machines"},
	{Privilege: "Datastore.AllocateSpace", On: OnStorage, For: "make disks"},
	{Privilege: "Datastore.AllocateTemplate", On: OnStorage, For: "upload images and config drives"},
	{Privilege: "Datastore.Audit", On: OnStorage, For: "see what a storage can hold, and how full it is"},
	{Privilege: "SDN.Use", On: OnBridge, For: "use the bridge"},
}

// On returns the privileges that a release needs on a scope, sorted.
func On(s Scope, v Version) []string { return on(Needs, s, v) }

func on(needs []Need, s Scope, v Version) []string {
	var out []string
	for _, n := range needs {
		if n.On == s && !v.Less(n.Since) && (n.Before == Version{} || v.Less(n.Before)) {
			out = append(out, n.Privilege)
		}
	}
	slices.Sort(out)
	return out
}

// Version is a release of Proxmox VE.
type Version struct{ Major, Minor int }

// Oldest is the first release that can import an image over the API.
var Oldest = Version{8, 3}

// newest is the last series that the table was checked against.
const newest = 9

// ParseVersion reads a release as /version says it, such as 8.4.1 or 9.0~beta1. It refuses one that the table does not cover.
func ParseVersion(text string) (Version, error) {
	major, rest, _ := strings.Cut(text, ".")
	minor := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = rest[:i]
	}
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return Version{}, fmt.Errorf("cannot read the release of Proxmox VE: %.40q is no version such as 8.4", text)
	}
	v := Version{a, b}
	switch {
	case v.Less(Oldest):
		return v, fmt.Errorf("cannot use Proxmox VE %s: machines need release %s or later; upgrade it", v, Oldest)
	case v.Major > newest:
		return v, fmt.Errorf("cannot use Proxmox VE %s: this release of Zoomies knows it up to %d; upgrade Zoomies", v, newest)
	}
	return v, nil
}

// Less orders releases.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }
