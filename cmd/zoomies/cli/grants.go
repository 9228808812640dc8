package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/client"
)

// grants reads roles: admin is over the fleet, operator@pool/linux over one pool, viewer@installation/acme over one installation.
func (a *app) grants(ctx context.Context, c *client.Client, texts []string) ([]map[string]string, error) {
	out := []map[string]string{}
	for _, text := range texts {
		role, scope, narrowed := strings.Cut(text, "@")
		if roles := []string{"viewer", "operator", "admin", "platform"}; !slices.Contains(roles, role) {
			return nil, usagef("%.32q is no role: use viewer, operator, admin or platform%s", role, didYouMean(role, roles))
		}
		g := map[string]string{"role": role, "scope_kind": "fleet"}
		if narrowed {
			kind, name, ok := strings.Cut(scope, "/")
			of := map[string]*noun{"pool": pool, "installation": installation}[kind]
			if !ok || of == nil {
				return nil, usagef("%.64q is no part of the fleet: write %s@pool/NAME or %s@installation/NAME", scope, role, role)
			}
			id, err := a.find(ctx, c, of, name)
			if err != nil {
				return nil, err
			}
			g["scope_kind"], g["scope_id"] = kind, id
		}
		out = append(out, g)
	}
	return out, nil
}
