package proxmox

import (
	"fmt"
	"strings"
	"time"
)

// AddUser makes a user (name@realm), in groups.
func (c *Console) AddUser(name string, groups ...string) {
	_ = c.do(func() error {
		u := c.s.access.users[name]
		if u == nil {
			u = &user{tokens: map[string]*token{}}
			c.s.access.users[name] = u
		}
		u.groups = map[string]bool{}
		for _, g := range groups {
			u.groups[g] = true
		}
		return nil
	})
}

// AddToken makes a token of a user, and returns what goes into the Authorization header behind "PVEAPIToken=". A separate token has
// only those of its own privileges that its user has too.
func (c *Console) AddToken(name, id string, separate bool) string {
	secret := ""
	_ = c.do(func() error {
		u := c.s.access.users[name]
		if u == nil {
			u = &user{tokens: map[string]*token{}}
			c.s.access.users[name] = u
		}
		secret = c.s.uuid()
		u.tokens[id] = &token{secret: secret, separate: separate}
		return nil
	})
	return fmt.Sprintf("%s!%s=%s", name, id, secret)
}

// ExpireToken lets a token (name@realm!id) end; the zero time is never.
func (c *Console) ExpireToken(who string, at time.Time) {
	_ = c.do(func() error {
		name, id, _ := strings.Cut(who, "!")
		if u := c.s.access.users[name]; u != nil && u.tokens[id] != nil {
			u.tokens[id].expire = at
		}
		return nil
	})
}

// Disable disables a user, or enables it again.
func (c *Console) Disable(name string, disabled bool) {
	_ = c.do(func() error {
		if u := c.s.access.users[name]; u != nil {
			u.disabled = disabled
		}
		return nil
	})
}

// Revoke removes a token (name@realm!id) or a user.
func (c *Console) Revoke(who string) {
	_ = c.do(func() error {
		c.s.revoke(who)
		return nil
	})
}

func (s *Server) revoke(who string) {
	name, id, isToken := strings.Cut(who, "!")
	if !isToken {
		delete(s.access.users, name)
	} else if u := s.access.users[name]; u != nil {
		delete(u.tokens, id)
	}
	for path, grants := range s.access.acl {
		var kept []grant
		for _, g := range grants {
			if g.who != who {
				kept = append(kept, g)
			}
		}
		s.access.acl[path] = kept
	}
}

// AddRole makes a role, or replaces it.
func (c *Console) AddRole(name string, privs ...string) {
	_ = c.do(func() error {
		r := map[string]bool{}
		for _, p := range privs {
			r[p] = true
		}
		c.s.access.roles[name] = r
		return nil
	})
}

// Grant gives a role at a path to a user (name@realm), a token (name@realm!id) or a group (@name), handed down to what is below.
func (c *Console) Grant(path, who, role string) { c.grant(path, who, role, true) }

// GrantHere is Grant without handing down.
func (c *Console) GrantHere(path, who, role string) { c.grant(path, who, role, false) }

func (c *Console) grant(path, who, role string, propagate bool) {
	_ = c.do(func() error {
		g := grant{kind: "user", who: who, role: role, propagate: propagate}
		switch {
		case strings.HasPrefix(who, "@"):
			g.kind, g.who = "group", who[1:]
		case strings.Contains(who, "!"):
			g.kind = "token"
		}
		path = normal(path)
		c.s.access.acl[path] = append(c.s.access.acl[path], g)
		return nil
	})
}

// Deny takes every grant of somebody at a path away.
func (c *Console) Deny(path, who string) {
	_ = c.do(func() error {
		path = normal(path)
		var kept []grant
		for _, g := range c.s.access.acl[path] {
			if g.who != strings.TrimPrefix(who, "@") {
				kept = append(kept, g)
			}
		}
		if c.s.access.acl[path] = kept; len(kept) == 0 {
			delete(c.s.access.acl, path)
		}
		return nil
	})
}

// AddPool makes a resource pool with machines in it.
func (c *Console) AddPool(id string, vmids ...int) {
	_ = c.do(func() error {
		p := c.s.access.pools[id]
		if p == nil {
			p = &pool{vms: map[int]bool{}, storages: map[string]bool{}}
			c.s.access.pools[id] = p
		}
		for _, v := range vmids {
			p.vms[v] = true
		}
		return nil
	})
}

// Scoped makes what a fleet is given: a pool, a user and a separate token with the three grants that are enough for a whole
// machine's life, on these storages and this bridge. It returns what goes behind "PVEAPIToken=".
func (c *Console) Scoped(pool, name, tokenID, bridge string, storages ...string) string {
	c.AddPool(pool)
	c.AddUser(name)
	secret := c.AddToken(name, tokenID, true)
	c.AddRole("SimMachines", strings.Fields(`VM.Allocate VM.Clone VM.Audit VM.Config.CPU VM.Config.Memory VM.Config.Disk VM.Config.Network
		VM.Config.Options VM.Config.HWType VM.Config.CDROM VM.PowerMgmt`)...)
	c.AddRole("SimStorage", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit")
	c.AddRole("SimNetwork", "SDN.Use")
	for _, who := range []string{name, name + "!" + tokenID} {
		c.Grant("/pool/"+pool, who, "SimMachines")
		for _, st := range storages {
			c.Grant("/storage/"+st, who, "SimStorage")
		}
		c.Grant("/sdn/zones/localnetwork/"+bridge, who, "SimNetwork")
	}
	return secret
}
