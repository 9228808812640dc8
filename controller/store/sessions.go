package store

import (
	"context"
	"time"
)

// Session is one sign-in of a user.
type Session struct {
	ID         string
	Hash       string // SHA-256 of the cookie's value
	UserID     string
	Address    string
	Agent      string
	CreatedAt  time.Time
	LastSeenAt time.Time
	ExpiresAt  time.Time
}

const sessionColumns columns = "id, hash, user_id, address, agent, created_at, last_seen_at, expires_at"

const selectSession = "SELECT " + string(sessionColumns) + " FROM sessions"

func (x *Session) values() []any {
	return []any{x.ID, x.Hash, x.UserID, x.Address, x.Agent, micros(x.CreatedAt), micros(x.LastSeenAt), micros(x.ExpiresAt)}
}

func scanSession(row scanner) (x Session, err error) {
	err = row.Scan(&x.ID, &x.Hash, &x.UserID, &x.Address, &x.Agent, intoTime(&x.CreatedAt), intoTime(&x.LastSeenAt), intoTime(&x.ExpiresAt))
	return x, err
}

// BeginSession writes a session, with a new ID unless it has one, and records that its user signed in. proof is the password hash
// that was checked, or empty for a user who has none; fresh, unless empty, takes its place. ErrNotFound when the user is gone,
// disabled, or has another password by now.
func (s *Store) BeginSession(ctx context.Context, x Session, proof, fresh string) (Session, error) {
	if x.ID == "" {
		x.ID = NewID(IDSession)
	}
	x.CreatedAt, x.ExpiresAt = s.now(), stamp(x.ExpiresAt)
	x.LastSeenAt = x.CreatedAt
	if fresh == "" {
		fresh = proof
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if err := execOne(ctx, t, "UPDATE users SET last_sign_in_at = ?, password_hash = ? WHERE id = ? AND password_hash = ? AND NOT disabled",
			micros(x.CreatedAt), fresh, x.UserID, proof); err != nil {
			return err
		}
		_, err := exec(ctx, t, sessionColumns.insert("sessions"), x.values()...)
		return err
	})
	return x, errorf(err, "begin a session")
}

// SessionByHash returns the session of a cookie. ErrNotFound when there is none.
func (s *Store) SessionByHash(ctx context.Context, hash string) (Session, error) {
	x, err := one(ctx, s.readers, scanSession, selectSession+" WHERE hash = ?", hash)
	return x, errorf(err, "read a session")
}

// Sessions returns the sessions of a user, newest first.
func (s *Store) Sessions(ctx context.Context, userID string) ([]Session, error) {
	list, err := all(ctx, s.readers, scanSession, selectSession+" WHERE user_id = ? ORDER BY created_at DESC, id", userID)
	return list, errorf(err, "list the sessions of %s", userID)
}

// TouchSession records that a session was used, and until when it may be used again.
func (s *Store) TouchSession(ctx context.Context, id string, expires time.Time) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE sessions SET last_seen_at = ?, expires_at = ? WHERE id = ?", micros(now), micros(expires), id)
	})
	return errorf(err, "renew session %s", id)
}

// DeleteSession ends a session. ErrNotFound when it is over already.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "DELETE FROM sessions WHERE id = ?", id)
	})
	return errorf(err, "end session %s", id)
}

// DeleteSessionsOf ends every session of a user but one, which may be empty, and returns how many.
func (s *Store) DeleteSessionsOf(ctx context.Context, userID, keep string) (int, error) {
	n, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (int, error) {
		return exec(ctx, t, "DELETE FROM sessions WHERE user_id = ? AND id <> ?", userID, keep)
	})
	return n, errorf(err, "end the sessions of %s", userID)
}
