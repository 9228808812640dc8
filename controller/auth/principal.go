package auth

import "slices"

// PrincipalKind says what somebody is.
type PrincipalKind string

// The kinds of principal.
const (
	KindNobody PrincipalKind = ""      // has not signed in
	KindUser   PrincipalKind = "user"  // signed in with a session
	KindToken  PrincipalKind = "token" // an API token of a user
	KindLocal  PrincipalKind = "local" // the machine's owner, over the local socket
	KindSetup  PrincipalKind = "setup" // whoever has a provider setup's capability: for its completion alone
)

// Principal is who makes a request.
type Principal struct {
	Kind   PrincipalKind
	ID     string // of the user, or of the token
	Name   string // as the audit log shows it
	UserID string // whose preferences count; empty for the machine's owner
	Via    string // the session or API token, by ID
	Grants []Grant
	Scopes []string // of a token; nil is no limit
	Owner  []Grant  // of a token's user: the token can do no more than they; nil is no limit
}

// Local is the machine's owner: whoever can open the local socket can read the database and its keys anyway.
func Local() Principal {
	return Principal{Kind: KindLocal, ID: "local", Name: "local", Grants: []Grant{{Platform, Scope{Kind: OverFleet}}}}
}

// SignedIn says whether it is known who this is.
func (p Principal) SignedIn() bool { return p.Kind != KindNobody }

// Can says whether p may do what needs the role and the area on the target.
func (p Principal) Can(least Role, area Area, write bool, t Target) bool {
	return p.InScope(area, write) && holds(p.Grants, least, t) && (p.Owner == nil || holds(p.Owner, least, t))
}

// CanSomewhere says whether p may do that on at least one target, so that a list is worth making.
func (p Principal) CanSomewhere(least Role, area Area, write bool) bool {
	if !p.InScope(area, write) {
		return false
	}
	for _, g := range p.Grants {
		if !g.Role.Includes(least) {
			continue
		}
		if p.Owner == nil {
			return true
		}
		for _, o := range p.Owner {
			// A grant over one pool and one over its installation may meet: whether they do is asked for each target.
			if o.Role.Includes(least) && (g.Scope == o.Scope || g.Scope.Kind != o.Scope.Kind) {
				return true
			}
		}
	}
	return false
}

// Reach is what some grants cover, when that is not everything.
type Reach struct{ Installations, Pools []string }

// Reaches says what p may do that on, for lists that are cut in the database: on what belongs to an installation or a pool of each
// reach. None at all means the whole fleet. It agrees with Can.
func (p Principal) Reaches(least Role) []Reach {
	sets := [][]Grant{p.Grants}
	if p.Owner != nil {
		sets = append(sets, p.Owner)
	}
	var out []Reach
	for _, grants := range sets {
		if r, all := reach(grants, least); !all {
			out = append(out, r)
		}
	}
	return out
}

func reach(grants []Grant, least Role) (r Reach, all bool) {
	for _, g := range grants {
		if !g.Role.Includes(least) {
			continue
		}
		switch g.Scope.Kind {
		case OverFleet:
			all = true
		case OverInstallation:
			r.Installations = append(r.Installations, g.Scope.ID)
		case OverPool:
			r.Pools = append(r.Pools, g.Scope.ID)
		}
	}
	return r, all
}

// InScope says whether a token's scopes include the area.
func (p Principal) InScope(area Area, write bool) bool {
	if p.Scopes == nil {
		return true
	}
	return slices.Contains(p.Scopes, "*") || slices.Contains(p.Scopes, string(area)+":write") ||
		!write && slices.Contains(p.Scopes, string(area)+":read")
}

// MayGive says whether p holds everything that the grant gives: nobody gives what they do not have.
func (p Principal) MayGive(g Grant, installationOf func(pool string) string) bool {
	t := Target{}
	switch g.Scope.Kind {
	case OverInstallation:
		t.Installation = g.Scope.ID
	case OverPool:
		t = Target{Installation: installationOf(g.Scope.ID), Pool: g.Scope.ID}
	default:
	}
	return p.Can(g.Role, AreaAccess, true, t)
}

func holds(grants []Grant, least Role, t Target) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool { return g.Role.Includes(least) && g.Scope.Covers(t) })
}
