package auth_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// A list that is cut by reaches shows exactly what Can allows.
func TestReachesAgreeWithCan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		grants := func(name string) []auth.Grant {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) auth.Grant {
				g := auth.Grant{Role: rapid.SampledFrom(auth.Roles).Draw(t, "role"), Scope: auth.Scope{Kind: rapid.SampledFrom([]auth.ScopeKind{auth.OverFleet, auth.OverInstallation, auth.OverPool}).Draw(t, "kind")}}
				if g.Scope.Kind != auth.OverFleet {
					g.Scope.ID = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id")
				}
				return g
			}), 0, 3).Draw(t, name)
		}
		p := auth.Principal{Kind: auth.KindUser, Grants: grants("grants")}
		if rapid.Bool().Draw(t, "token") {
			p.Owner = append([]auth.Grant{}, grants("owner")...)
		}
		least := rapid.SampledFrom(auth.Roles).Draw(t, "least")
		target := auth.Target{Installation: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "installation"), Pool: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "pool")}
		covered := true
		for _, r := range p.Reaches(least) {
			covered = covered && (slices.Contains(r.Installations, target.Installation) || target.Pool != "" && slices.Contains(r.Pools, target.Pool))
		}
		if can := p.Can(least, auth.AreaJobs, false, target); can != covered {
			t.Fatalf("%+v on %+v: can %v, reaches %v", p, target, can, covered)
		}
	})
}
