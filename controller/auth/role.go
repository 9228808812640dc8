package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Role says how much somebody may do. Each includes those before it.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // sees
	Operator Role = "operator" // and acts on jobs, runners and hosts
	Admin    Role = "admin"    // and declares installations, pools, hosts and who may use them
	Platform Role = "platform" // and runs the controller itself: settings, users of the whole fleet, keys, updates
)

// Roles lists them, the least first.
var Roles = []Role{Viewer, Operator, Admin, Platform}

// Includes says whether r may do what least may.
func (r Role) Includes(least Role) bool {
	have, need := slices.Index(Roles, r), slices.Index(Roles, least)
	return need >= 0 && have >= need
}

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if r := Role(text); slices.Contains(Roles, r) {
		return r, nil
	}
	return "", fmt.Errorf("%.32q is no role: choose viewer, operator, admin or platform", text)
}

// ScopeKind is what a grant is over.
type ScopeKind string

// The kinds of scope.
const (
	OverFleet        ScopeKind = "fleet"
	OverInstallation ScopeKind = "installation"
	OverPool         ScopeKind = "pool"
)

// Scope is the fleet, or one installation or pool by ID.
type Scope struct {
	Kind ScopeKind
	ID   string
}

// Grant gives a role over a scope.
type Grant struct {
	Role  Role
	Scope Scope
}

// Validate refuses a grant that makes no sense.
func (g Grant) Validate() error {
	if _, err := ParseRole(string(g.Role)); err != nil {
		return err
	}
	switch g.Scope.Kind {
	case OverFleet:
		if g.Scope.ID != "" {
			return fmt.Errorf("a grant over the fleet names no object, and this one names %.40q", g.Scope.ID)
		}
	case OverInstallation, OverPool:
		if g.Scope.ID == "" {
			return fmt.Errorf("a grant over one %s needs its ID", g.Scope.Kind)
		}
		if g.Role == Platform {
			return fmt.Errorf("the role platform is over the whole fleet: it cannot be narrowed to one %s", g.Scope.Kind)
		}
	default:
		return fmt.Errorf("%.32q is no scope: choose fleet, installation or pool", string(g.Scope.Kind))
	}
	return nil
}

// Target is what a request is about. Both empty is the fleet as a whole. What belongs to a pool belongs to the pool's
// installation, too.
type Target struct{ Installation, Pool string }

// Covers says whether the scope holds the target.
func (s Scope) Covers(t Target) bool {
	switch s.Kind {
	case OverFleet:
		return true
	case OverInstallation:
		return t.Installation != "" && t.Installation == s.ID
	case OverPool:
		return t.Pool != "" && t.Pool == s.ID
	}
	return false
}

// Area is a part of the API, as the scopes of a token name it.
type Area string

// The areas.
const (
	AreaFleet         Area = "fleet" // overview, problems, events
	AreaJobs          Area = "jobs"
	AreaRunners       Area = "runners"
	AreaPools         Area = "pools"
	AreaHosts         Area = "hosts"
	AreaMachines      Area = "machines" // providers and what is rented from them
	AreaInstallations Area = "installations"
	AreaAccess        Area = "access" // users, sessions and tokens
	AreaSettings      Area = "settings"
	AreaAudit         Area = "audit"
	AreaMetrics       Area = "metrics"
)

// Areas lists them.
var Areas = []Area{AreaFleet, AreaJobs, AreaRunners, AreaPools, AreaHosts, AreaMachines, AreaInstallations, AreaAccess, AreaSettings, AreaAudit, AreaMetrics}

// TokenScopes returns every scope that a token can have: "<area>:read" and "<area>:write", of which the latter includes the
// former, and "*" for all.
func TokenScopes() []string {
	scopes := []string{"*"}
	for _, a := range Areas {
		scopes = append(scopes, string(a)+":read", string(a)+":write")
	}
	return scopes
}

// ValidateScope refuses a scope that is none.
func ValidateScope(scope string) error {
	if slices.Contains(TokenScopes(), scope) {
		return nil
	}
	areas := make([]string, len(Areas))
	for i, a := range Areas {
		areas[i] = string(a)
	}
	return fmt.Errorf("%.48q is no scope of a token: choose * or <area>:read or <area>:write, where the area is one of %s", scope, strings.Join(areas, ", "))
}
