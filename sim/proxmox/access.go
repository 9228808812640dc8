package proxmox

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// privileges are all that there are; an Administrator has them.
var privileges = strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit Group.Allocate
Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit Realm.Allocate Realm.AllocateUser SDN.Allocate
SDN.Audit SDN.Use Sys.AccessNetwork Sys.Audit Sys.Console Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify VM.Allocate
VM.Audit VM.Backup VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory
VM.Config.Network VM.Config.Options VM.Console VM.Migrate VM.PowerMgmt VM.Snapshot VM.Snapshot.Rollback`)

// privilegesOf are those of a version: what the guest agent needs has other names since 9.0.
func privilegesOf(version string) []string {
	if strings.HasPrefix(version, "8.") {
		return append(slices.Clone(privileges), "VM.Monitor")
	}
	return append(slices.Clone(privileges), "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite",
		"VM.GuestAgent.Unrestricted", "VM.Replicate")
}

const (
	rootUser = "root@pam"
	noAccess = "NoAccess"
)

type user struct {
	disabled bool
	expire   time.Time
	groups   map[string]bool
	tokens   map[string]*token
}

type token struct {
	secret   string
	separate bool // has privileges of its own, and of them only those that its user has too
	expire   time.Time
}

// grant is one line of the access control list.
type grant struct {
	kind      string // user, token or group
	who       string
	role      string
	propagate bool
}

// pool is a resource pool.
type pool struct {
	comment  string
	vms      map[int]bool
	storages map[string]bool
}

// access is who may do what.
type access struct {
	privs []string
	users map[string]*user
	roles map[string]map[string]bool
	acl   map[string][]grant
	pools map[string]*pool
}

func newAccess(version string) access {
	a := access{
		privs: privilegesOf(version), users: map[string]*user{rootUser: {tokens: map[string]*token{}}}, roles: map[string]map[string]bool{},
		acl: map[string][]grant{}, pools: map[string]*pool{},
	}
	role := func(name string, privs ...string) {
		a.roles[name] = map[string]bool{}
		for _, p := range privs {
			a.roles[name][p] = true
		}
	}
	role(noAccess)
	role("Administrator", a.privs...)
	var vm, store []string
	for _, p := range a.privs {
		if strings.HasPrefix(p, "VM.") {
			vm = append(vm, p)
		}
		if strings.HasPrefix(p, "Datastore.") {
			store = append(store, p)
		}
	}
	role("PVEVMAdmin", vm...)
	role("PVEVMUser", "VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt")
	role("PVEDatastoreAdmin", store...)
	role("PVEDatastoreUser", "Datastore.AllocateSpace", "Datastore.Audit")
	role("PVEAuditor", "Datastore.Audit", "Mapping.Audit", "Pool.Audit", "SDN.Audit", "Sys.Audit", "VM.Audit")
	role("PVEPoolAdmin", "Pool.Allocate", "Pool.Audit")
	role("PVEPoolUser", "Pool.Audit")
	role("PVESDNUser", "SDN.Audit", "SDN.Use")
	role("PVETemplateUser", "VM.Audit", "VM.Clone")
	return a
}

// prefixes are a path's own and all above it, from the root on.
func prefixes(path string) []string {
	out := []string{"/"}
	var at strings.Builder
	for p := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if p != "" {
			at.WriteString("/" + p)
			out = append(out, at.String())
		}
	}
	return out
}

func normal(path string) string {
	var parts []string
	for p := range strings.SplitSeq(path, "/") {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return "/" + strings.Join(parts, "/")
}

// rolesOf are the roles at a path, with whether they are handed down: what is granted nearer to the path takes the place of what
// is granted further up, and a token's or user's own grants the place of those of groups.
func (a *access) rolesOf(who, path string) map[string]bool {
	if who == rootUser {
		return map[string]bool{"Administrator": true}
	}
	var groups map[string]bool
	if u := a.users[who]; u != nil {
		groups = u.groups
	}
	roles := map[string]bool{}
	all := prefixes(path)
	for i, at := range all {
		for _, kind := range []string{"token", "user", "group"} {
			var found map[string]bool
			for _, g := range a.acl[at] {
				mine := g.kind == kind && (g.who == who || kind == "group" && groups[g.who])
				if mine && (g.propagate || i == len(all)-1) {
					if found == nil {
						found = map[string]bool{}
					}
					found[g.role] = found[g.role] || g.propagate
				}
			}
			if found != nil {
				roles = found
				break
			}
		}
	}
	if p, ok := roles[noAccess]; ok {
		return map[string]bool{noAccess: p}
	}
	return roles
}

// own are the privileges of a user or token by itself at a path, with those that come from pools.
func (a *access) own(who, path string) map[string]bool {
	roles := a.rolesOf(who, path)
	var pools []map[string]bool
	kind, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if kind == "vms" || kind == "storage" {
		for id, p := range a.pools {
			if kind == "vms" && p.vms[atoi(name)] || kind == "storage" && p.storages[name] {
				pools = append(pools, a.rolesOf(who, "/pool/"+id))
			}
		}
	}
	if _, closed := roles[noAccess]; !closed {
		for _, p := range pools {
			if _, closed := p[noAccess]; closed {
				roles = map[string]bool{noAccess: false}
				break
			}
			for role := range p {
				if _, ok := roles[role]; !ok {
					roles[role] = false // what comes from a pool is never handed down
				}
			}
		}
	}
	privs := map[string]bool{}
	for role, propagate := range roles {
		for p := range a.roles[role] {
			privs[p] = privs[p] || propagate
		}
	}
	return privs
}

// permissions are the privileges of a user or token at a path, with whether they are handed down.
func (a *access) permissions(who, path string) map[string]bool {
	name, id, isToken := strings.Cut(who, "!")
	if name == rootUser && !isToken {
		privs := map[string]bool{}
		for _, p := range a.privs {
			privs[p] = true
		}
		return privs
	}
	if !isToken {
		return a.own(who, path)
	}
	u := a.users[name]
	if u == nil || u.tokens[id] == nil {
		return nil
	}
	users := a.permissions(name, path)
	if !u.tokens[id].separate {
		return users
	}
	privs := a.own(who, path)
	for p := range privs {
		if up, ok := users[p]; ok {
			privs[p] = privs[p] && up
		} else {
			delete(privs, p)
		}
	}
	return privs
}

func (a *access) has(who, path string, privs ...string) bool {
	return a.check(who, path, privs...) == nil
}

func (a *access) hasAny(who, path string, privs ...string) bool {
	return a.checkAny(who, path, privs...) == nil
}

// check wants all of the privileges, and names the first that is missing.
func (a *access) check(who, path string, privs ...string) error {
	have := a.permissions(who, path)
	for _, p := range privs {
		if _, ok := have[p]; !ok {
			return denied(path + ", " + p)
		}
	}
	return nil
}

// checkAny wants one of the privileges.
func (a *access) checkAny(who, path string, privs ...string) error {
	have := a.permissions(who, path)
	for _, p := range privs {
		if _, ok := have[p]; ok {
			return nil
		}
	}
	return denied(path + ", " + strings.Join(privs, "|"))
}

// checkVM wants privileges on a machine, or on the pool that it is to be made in.
func (a *access) checkVM(who string, vmid int, pool string, privs ...string) error {
	if pool != "" && a.has(who, "/pool/"+pool, privs...) {
		return nil
	}
	return a.check(who, fmt.Sprintf("/vms/%d", vmid), privs...)
}

func (a *access) poolExists(id string) error {
	if id != "" && a.pools[id] == nil {
		return denied("pool '" + id + "' does not exist")
	}
	return nil
}

// viewer says of which machines somebody has VM.Audit. Nearly all of thousands have neither grants nor a pool of their own: for them
// one answer is enough.
func (a *access) viewer(who string) func(vmid int) bool {
	special := map[int]bool{}
	for path := range a.acl {
		if id, ok := strings.CutPrefix(path, "/vms/"); ok {
			special[atoi(id)] = true
		}
	}
	for _, p := range a.pools {
		for id := range p.vms {
			special[id] = true
		}
	}
	others := a.has(who, "/vms/0", "VM.Audit")
	return func(vmid int) bool {
		if !special[vmid] {
			return others
		}
		return a.has(who, fmt.Sprintf("/vms/%d", vmid), "VM.Audit")
	}
}

// poolOf is the pool of a machine.
func (a *access) poolOf(vmid int) string {
	for id, p := range a.pools {
		if p.vms[vmid] {
			return id
		}
	}
	return ""
}
