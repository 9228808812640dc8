package store

import (
	"context"
	"fmt"
)

func scanGrant(row scanner) (g Grant, err error) {
	return g, row.Scan(&g.Role, &g.ScopeKind, &g.ScopeID)
}

// Grants returns the grants of a user or an API token, the fleet's first.
func (s *Store) Grants(ctx context.Context, holderID string) ([]Grant, error) {
	list, err := all(ctx, s.readers, scanGrant, "SELECT role, scope_kind, scope_id FROM grants WHERE holder_id = ? ORDER BY scope_kind, scope_id", holderID)
	return list, errorf(err, "read the grants of %s", holderID)
}

func (s *Store) allGrants(ctx context.Context) (map[string][]Grant, error) {
	type held struct {
		holder string
		grant  Grant
	}
	scan := func(row scanner) (h held, err error) {
		return h, row.Scan(&h.holder, &h.grant.Role, &h.grant.ScopeKind, &h.grant.ScopeID)
	}
	list, err := all(ctx, s.readers, scan, "SELECT holder_id, role, scope_kind, scope_id FROM grants ORDER BY scope_kind, scope_id")
	if err != nil {
		return nil, err
	}
	by := map[string][]Grant{}
	for _, h := range list {
		by[h.holder] = append(by[h.holder], h.grant)
	}
	return by, nil
}

// setGrants replaces a holder's grants. A grant on an installation or pool that is not there is ErrNotFound.
func setGrants(ctx context.Context, t *tx, holderID string, grants []Grant) error {
	if _, err := exec(ctx, t, "DELETE FROM grants WHERE holder_id = ?", holderID); err != nil {
		return err
	}
	for _, g := range grants {
		if table := map[string]string{ScopeInstallation: "installations", ScopePool: "pools"}[g.ScopeKind]; table != "" {
			if found, err := exists(ctx, t, "SELECT id FROM "+table+" WHERE id = ?", g.ScopeID); err != nil {
				return err
			} else if !found {
				return fmt.Errorf("%w: there is no %s %s to grant a role on", ErrNotFound, g.ScopeKind, g.ScopeID)
			}
		}
		if _, err := exec(ctx, t, "INSERT INTO grants (holder_id, role, scope_kind, scope_id) VALUES (?, ?, ?, ?)",
			holderID, g.Role, g.ScopeKind, g.ScopeID); err != nil {
			return err
		}
	}
	return nil
}
