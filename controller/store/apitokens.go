package store

import (
	"context"
	"time"
)

// APIToken lets a program act for a user, within grants and scopes of its own.
type APIToken struct {
	ID         string
	Name       string // unique
	Hash       string // SHA-256
	UserID     string
	Scopes     []string
	ExpiresAt  time.Time // zero is never
	CreatedAt  time.Time
	LastUsedAt time.Time // to the minute
	Grants     []Grant
}

const apiTokenColumns columns = "id, name, hash, user_id, scopes, expires_at, created_at, last_used_at"

const selectAPIToken = "SELECT " + string(apiTokenColumns) + " FROM api_tokens"

func (a *APIToken) values() []any {
	return []any{a.ID, a.Name, a.Hash, a.UserID, jsonList(a.Scopes), micros(a.ExpiresAt), micros(a.CreatedAt), micros(a.LastUsedAt)}
}

func scanAPIToken(row scanner) (a APIToken, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Hash, &a.UserID, intoJSON(&a.Scopes), intoTime(&a.ExpiresAt), intoTime(&a.CreatedAt), intoTime(&a.LastUsedAt))
	return a, err
}

// CreateAPIToken writes an API token with its grants, with a new ID unless it has one. ErrConflict when the name is
// taken, ErrNotFound when there is no such user.
func (s *Store) CreateAPIToken(ctx context.Context, a APIToken) (APIToken, error) {
	if a.ID == "" {
		a.ID = NewID(IDToken)
	}
	a.CreatedAt, a.ExpiresAt = s.now(), stamp(a.ExpiresAt)
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if _, err := exec(ctx, t, apiTokenColumns.insert("api_tokens"), a.values()...); err != nil {
			return err
		}
		return setGrants(ctx, t, a.ID, a.Grants)
	})
	return a, errorf(err, "create API token %q", a.Name)
}

// APITokenByHash returns an API token with its grants. ErrNotFound when there is none.
func (s *Store) APITokenByHash(ctx context.Context, hash string) (APIToken, error) {
	return s.apiTokenWhere(ctx, "hash = ?", hash)
}

// APIToken returns one API token with its grants. ErrNotFound when there is none.
func (s *Store) APIToken(ctx context.Context, id string) (APIToken, error) {
	return s.apiTokenWhere(ctx, "id = ?", id)
}

func (s *Store) apiTokenWhere(ctx context.Context, cond string, arg any) (APIToken, error) {
	a, err := one(ctx, s.readers, scanAPIToken, selectAPIToken+" WHERE "+cond, arg)
	if err == nil {
		a.Grants, err = s.Grants(ctx, a.ID)
	}
	return a, errorf(err, "read an API token")
}

// APITokens returns all API tokens by name, with their grants.
func (s *Store) APITokens(ctx context.Context) ([]APIToken, error) {
	list, err := all(ctx, s.readers, scanAPIToken, selectAPIToken+" ORDER BY name")
	if err != nil {
		return nil, errorf(err, "list API tokens")
	}
	grants, err := s.allGrants(ctx)
	for i := range list {
		list[i].Grants = grants[list[i].ID]
	}
	return list, errorf(err, "list API tokens")
}

// TouchAPIToken records that an API token was used.
func (s *Store) TouchAPIToken(ctx context.Context, id string) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE api_tokens SET last_used_at = ? WHERE id = ?", micros(now), id)
	})
	return errorf(err, "record the use of API token %s", id)
}

// DeleteAPIToken revokes an API token. ErrNotFound when there is none.
func (s *Store) DeleteAPIToken(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if _, err := exec(ctx, t, "DELETE FROM grants WHERE holder_id = ?", id); err != nil {
			return err
		}
		return execOne(ctx, t, "DELETE FROM api_tokens WHERE id = ?", id)
	})
	return errorf(err, "revoke API token %s", id)
}
