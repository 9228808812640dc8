package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// User is somebody who may sign in.
type User struct {
	ID           string
	Name         string // unique, in lower case
	Source       string // local, oidc or tailnet
	Subject      string // the identity at that source; empty for local
	PasswordHash string // argon2id; empty for others
	Disabled     bool
	CreatedAt    time.Time
	UpdatedAt    time.Time
	LastSignInAt time.Time
	Grants       []Grant
}

// Grant gives a role over a scope: the fleet, or one installation or pool by ID.
type Grant struct {
	Role      string
	ScopeKind string
	ScopeID   string
}

// The kinds of scope.
const (
	ScopeFleet        = "fleet"
	ScopeInstallation = "installation"
	ScopePool         = "pool"
)

const userColumns columns = `id, name, source, subject, password_hash, disabled, created_at, updated_at, last_sign_in_at`

const selectUser = "SELECT " + string(userColumns) + " FROM users"

func (u *User) values() []any {
	return []any{u.ID, u.Name, u.Source, u.Subject, u.PasswordHash, u.Disabled, micros(u.CreatedAt), micros(u.UpdatedAt), micros(u.LastSignInAt)}
}

func scanUser(row scanner) (u User, err error) {
	err = row.Scan(&u.ID, &u.Name, &u.Source, &u.Subject, &u.PasswordHash, &u.Disabled, intoTime(&u.CreatedAt), intoTime(&u.UpdatedAt), intoTime(&u.LastSignInAt))
	return u, err
}

// ErrClaimed says that the fleet has its first user already.
var ErrClaimed = errors.New("this fleet has been claimed already")

// ErrLastOwner says that a change would leave nobody who can administer the fleet.
var ErrLastOwner = errors.New("this is the last user who can administer the fleet")

// CreateUser writes a new user with their grants, with a new ID unless it has one. ErrConflict when the name is taken.
func (s *Store) CreateUser(ctx context.Context, u User) (User, error) {
	u = s.newUser(u)
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error { return insertUser(ctx, t, &u) })
	return u, errorf(err, "create user %q", u.Name)
}

// ClaimFleet writes the first user, and removes the settings named: what the claim was proved with. ErrClaimed
// when there is a user already.
func (s *Store) ClaimFleet(ctx context.Context, u User, spent ...string) (User, error) {
	u = s.newUser(u)
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if taken, err := exists(ctx, t, "SELECT id FROM users LIMIT 1"); err != nil {
			return err
		} else if taken {
			return ErrClaimed
		}
		for _, key := range spent {
			if _, err := exec(ctx, t, "DELETE FROM settings WHERE key = ?", key); err != nil {
				return err
			}
		}
		return insertUser(ctx, t, &u)
	})
	return u, errorf(err, "claim the fleet")
}

func (s *Store) newUser(u User) User {
	if u.ID == "" {
		u.ID = NewID(IDUser)
	}
	u.Name = strings.ToLower(u.Name)
	u.CreatedAt = s.now()
	u.UpdatedAt = u.CreatedAt
	return u
}

func insertUser(ctx context.Context, t *tx, u *User) error {
	if _, err := exec(ctx, t, userColumns.insert("users"), u.values()...); err != nil {
		return err
	}
	return setGrants(ctx, t, u.ID, u.Grants)
}

// UpdateUser writes a whole user but for its creation time and last sign-in, and their grants. A user who is disabled, or whose
// password is another, is signed out everywhere. ErrConflict when the user was changed after u was read, ErrLastOwner when nobody
// would be left who can administer the fleet.
func (s *Store) UpdateUser(ctx context.Context, u User) error {
	read := u.UpdatedAt
	u.Name, u.UpdatedAt = strings.ToLower(u.Name), s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		old, err := one(ctx, t, scanUser, selectUser+" WHERE id = ?", u.ID)
		if err != nil {
			return err
		}
		if !old.UpdatedAt.Equal(stamp(read)) {
			return fmt.Errorf("%w: somebody else changed the user meanwhile", ErrConflict)
		}
		u.CreatedAt, u.LastSignInAt = old.CreatedAt, old.LastSignInAt
		if err := execOne(ctx, t, userColumns.update("users"), append(u.values(), u.ID)...); err != nil {
			return err
		}
		if u.Disabled || u.PasswordHash != old.PasswordHash {
			if _, err := exec(ctx, t, "DELETE FROM sessions WHERE user_id = ?", u.ID); err != nil {
				return err
			}
		}
		if err := setGrants(ctx, t, u.ID, u.Grants); err != nil {
			return err
		}
		return ownerLeft(ctx, t)
	})
	return errorf(err, "update user %q", u.Name)
}

// DeleteUser deletes a user with their sessions, API tokens, grants and dismissals. ErrLastOwner when nobody would be
// left who can administer the fleet.
func (s *Store) DeleteUser(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if _, err := exec(ctx, t, "DELETE FROM grants WHERE holder_id = ? OR holder_id IN (SELECT id FROM api_tokens WHERE user_id = ?)", id, id); err != nil {
			return err
		}
		if _, err := exec(ctx, t, "DELETE FROM dismissals WHERE user_id = ?", id); err != nil {
			return err
		}
		if err := execOne(ctx, t, "DELETE FROM users WHERE id = ?", id); err != nil {
			return err
		}
		return ownerLeft(ctx, t)
	})
	return errorf(err, "delete user %s", id)
}

// ownerLeft refuses a change after which no enabled user has the highest role over the fleet.
func ownerLeft(ctx context.Context, t *tx) error {
	left, err := exists(ctx, t, `SELECT users.id FROM users JOIN grants ON grants.holder_id = users.id
		WHERE NOT users.disabled AND grants.role = 'platform' AND grants.scope_kind = 'fleet' LIMIT 1`)
	if err == nil && !left {
		return fmt.Errorf("%w: give another user the platform role first (%w)", ErrLastOwner, ErrConflict)
	}
	return err
}

// SetPassword writes a user's password hash in place of the one that was checked, and ends their sessions but one, which may be
// empty. ErrConflict when the password was changed meanwhile.
func (s *Store) SetPassword(ctx context.Context, id, old, hash, keepSession string) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		n, err := exec(ctx, t, "UPDATE users SET password_hash = ?, updated_at = ? WHERE id = ? AND password_hash = ? AND NOT disabled",
			hash, micros(now), id, old)
		if err != nil {
			return err
		} else if n != 1 {
			return fmt.Errorf("%w: the password was changed meanwhile", ErrConflict)
		}
		_, err = exec(ctx, t, "DELETE FROM sessions WHERE user_id = ? AND id <> ?", id, keepSession)
		return err
	})
	return errorf(err, "set the password of %s", id)
}

// User returns one user with their grants. ErrNotFound when there is none.
func (s *Store) User(ctx context.Context, id string) (User, error) {
	return s.userWhere(ctx, "id = ?", id)
}

// UserByName returns the user of that name, in any case. ErrNotFound when there is none.
func (s *Store) UserByName(ctx context.Context, name string) (User, error) {
	return s.userWhere(ctx, "name = ?", strings.ToLower(name))
}

// UserBySubject returns the user of an identity at another source. ErrNotFound when there is none.
func (s *Store) UserBySubject(ctx context.Context, source, subject string) (User, error) {
	return s.userWhere(ctx, "source = ? AND subject = ? AND subject <> ''", source, subject)
}

func (s *Store) userWhere(ctx context.Context, cond string, args ...any) (User, error) {
	u, err := one(ctx, s.readers, scanUser, selectUser+" WHERE "+cond, args...)
	if err == nil {
		u.Grants, err = s.Grants(ctx, u.ID)
	}
	return u, errorf(err, "read a user")
}

// Users returns all users by name, with their grants.
func (s *Store) Users(ctx context.Context) ([]User, error) {
	list, err := all(ctx, s.readers, scanUser, selectUser+" ORDER BY name")
	if err != nil {
		return nil, errorf(err, "list users")
	}
	grants, err := s.allGrants(ctx)
	for i := range list {
		list[i].Grants = grants[list[i].ID]
	}
	return list, errorf(err, "list users")
}

// Claimed says whether the fleet has a user.
func (s *Store) Claimed(ctx context.Context) (bool, error) {
	yes, err := exists(ctx, s.readers, "SELECT id FROM users LIMIT 1")
	return yes, errorf(err, "look for a user")
}
