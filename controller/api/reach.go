package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Grant gives a role over the fleet, one installation or one pool.
type Grant struct {
	Role      string `json:"role" enum:"viewer,operator,admin,platform" doc:"Each role includes those before it"`
	ScopeKind string `json:"scope_kind" enum:"fleet,installation,pool" default:"fleet" required:"false" doc:"What it is over"`
	ScopeID   string `json:"scope_id,omitempty" maxLength:"64" doc:"The installation's or the pool's ID"`
}

func viewGrants(rows []store.Grant) []Grant {
	out := make([]Grant, len(rows))
	for i, g := range rows {
		out[i] = Grant{Role: g.Role, ScopeKind: g.ScopeKind, ScopeID: g.ScopeID}
	}
	return out
}

func (g Grant) row() store.Grant {
	return store.Grant{Role: g.Role, ScopeKind: g.ScopeKind, ScopeID: g.ScopeID}
}

func authGrant(g store.Grant) auth.Grant {
	return auth.Grant{Role: auth.Role(g.Role), Scope: auth.Scope{Kind: auth.ScopeKind(g.ScopeKind), ID: g.ScopeID}}
}

// reach is which users and grants are the caller's to manage. An admin of the fleet sees every user. An admin of an installation or
// a pool sees those whose every grant lies inside what they administer, and nobody else: a user without a grant is the fleet's.
// Neither changes a user who holds more than they do, and neither gives what they do not hold.
type reach struct {
	who   auth.Principal
	write bool
	pools map[string]string // their installations
	ins   map[string]bool
}

func (s *Server) reach(ctx context.Context) (reach, error) {
	r := reach{who: principal(ctx), write: requestOf(ctx).guard.Writes(), pools: map[string]string{}, ins: map[string]bool{}}
	pools, err := s.store.Pools(ctx)
	if err != nil {
		return r, err
	}
	for _, p := range pools {
		r.pools[p.ID] = p.InstallationID
	}
	ins, err := s.store.Installations(ctx)
	for _, in := range ins {
		r.ins[in.ID] = true
	}
	return r, err
}

func (r reach) fleet() bool { return r.who.Can(auth.Admin, auth.AreaAccess, r.write, auth.Target{}) }

func (r reach) installationOf(pool string) string { return r.pools[pool] }

// administers says whether the caller is an admin of what the grant is over.
func (r reach) administers(g store.Grant) bool {
	t := auth.Target{}
	switch g.ScopeKind {
	case store.ScopeInstallation:
		t.Installation = g.ScopeID
	case store.ScopePool:
		t = auth.Target{Installation: r.pools[g.ScopeID], Pool: g.ScopeID}
	}
	return r.who.Can(auth.Admin, auth.AreaAccess, r.write, t)
}

// sees says whether a user with these grants is there for the caller.
func (r reach) sees(grants []store.Grant) bool {
	if r.fleet() {
		return true
	}
	for _, g := range grants {
		if !r.administers(g) {
			return false
		}
	}
	return len(grants) > 0
}

// manages refuses a change to a user who holds more than the caller.
func (r reach) manages(u store.User) error {
	for _, g := range u.Grants {
		if !r.who.MayGive(authGrant(g), r.installationOf) {
			return problem(http.StatusForbidden, fmt.Sprintf("%s has the role %s over the %s, and you do not: nobody changes a user who may do more than they.",
				u.Name, g.Role, g.ScopeKind), "Ask somebody who has that role.")
		}
	}
	return nil
}

// check refuses grants that make no sense, that name what is not there, or that the caller does not hold.
func (r reach) check(grants []Grant) error {
	seen := map[auth.Scope]bool{}
	for i, g := range grants {
		at := fmt.Sprintf("body.grants[%d]", i)
		ag := authGrant(g.row())
		if err := ag.Validate(); err != nil {
			return invalid(at, "%s", err)
		}
		if seen[ag.Scope] {
			return invalid(at, "there are two grants over the same %s: give the greater role alone", g.ScopeKind)
		}
		seen[ag.Scope] = true
		if !r.who.MayGive(ag, r.installationOf) {
			return problem(http.StatusForbidden, fmt.Sprintf("You cannot give the role %s over the %s: nobody gives what they do not have.", g.Role, g.ScopeKind),
				"Ask somebody who has that role.")
		}
		_, pool := r.pools[g.ScopeID]
		if ag.Scope.Kind == auth.OverPool && !pool || ag.Scope.Kind == auth.OverInstallation && !r.ins[g.ScopeID] {
			return invalid(at, "there is no %s %.64s", g.ScopeKind, g.ScopeID)
		}
	}
	return nil
}

// checkUser refuses grants that would put a user out of the caller's reach, besides those that check refuses.
func (r reach) checkUser(grants []Grant) error {
	if err := r.check(grants); err != nil {
		return err
	}
	rows := grantRows(grants)
	if !r.sees(rows) {
		return problem(http.StatusForbidden, "Such a user would not be yours to manage: all their grants must lie inside what you administer, and there must be one.",
			"Give them a role over an installation or a pool of yours.")
	}
	return nil
}

func grantRows(grants []Grant) []store.Grant {
	rows := make([]store.Grant, len(grants))
	for i, g := range grants {
		rows[i] = g.row()
	}
	return rows
}

// userWithin returns a user whom the caller may see.
func (s *Server) userWithin(ctx context.Context, id string) (store.User, reach, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return store.User{}, r, err
	}
	u, err := s.store.User(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !r.sees(u.Grants) {
		return store.User{}, r, notFound("user", id)
	}
	return u, r, err
}
