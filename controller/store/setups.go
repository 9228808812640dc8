package store

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// ProviderSetup is a connection to a provider that is being set up from the provider's side. Its capability admits one completion.
type ProviderSetup struct {
	ID          string
	Name        string // of the connection, unique
	Hash        string // SHA-256 of the capability
	Endpoint    string // of the provider's API; empty until it was completed
	CreatedAt   time.Time
	ExpiresAt   time.Time // until when it can be completed
	CompletedAt time.Time // zero until it was
}

const setupColumns columns = "id, name, hash, endpoint, created_at, expires_at, completed_at"

const selectSetup = "SELECT " + string(setupColumns) + " FROM provider_setups"

func scanSetup(row scanner) (p ProviderSetup, err error) {
	err = row.Scan(&p.ID, &p.Name, &p.Hash, &p.Endpoint, intoTime(&p.CreatedAt), intoTime(&p.ExpiresAt), intoTime(&p.CompletedAt))
	return p, err
}

// CreateProviderSetup writes a setup, with a new ID unless it has one. ErrConflict when the name is taken.
func (s *Store) CreateProviderSetup(ctx context.Context, p ProviderSetup) (ProviderSetup, error) {
	if p.ID == "" {
		p.ID = NewID(IDSetup)
	}
	p.CreatedAt, p.ExpiresAt, p.CompletedAt, p.Endpoint = s.now(), stamp(p.ExpiresAt), time.Time{}, ""
	if p.Hash == "" || p.Name == "" || !p.ExpiresAt.After(p.CreatedAt) {
		return ProviderSetup{}, errors.New("cannot create a provider setup: it needs a name, a hash and an end in the future")
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, (setupColumns + ", connection").insert("provider_setups"),
			p.ID, p.Name, p.Hash, p.Endpoint, micros(p.CreatedAt), micros(p.ExpiresAt), int64(0), "")
		return err
	})
	return p, errorf(err, "create provider setup %q", p.Name)
}

// ProviderSetups returns all setups by name.
func (s *Store) ProviderSetups(ctx context.Context) ([]ProviderSetup, error) {
	list, err := all(ctx, s.readers, scanSetup, selectSetup+" ORDER BY name")
	return list, errorf(err, "list provider setups")
}

// ProviderSetup returns one setup. ErrNotFound when there is none.
func (s *Store) ProviderSetup(ctx context.Context, id string) (ProviderSetup, error) {
	p, err := one(ctx, s.readers, scanSetup, selectSetup+" WHERE id = ?", id)
	return p, errorf(err, "read a provider setup")
}

// ProviderSetupByHash returns the setup that a capability may complete: one that is open, or was completed with it. ErrTokenSpent when
// there is none or its time is over.
func (s *Store) ProviderSetupByHash(ctx context.Context, hash string) (ProviderSetup, error) {
	p, err := one(ctx, s.readers, scanSetup, selectSetup+" WHERE hash = ?", hash)
	if errors.Is(err, ErrNotFound) || err == nil && !s.now().Before(p.ExpiresAt) {
		err = ErrTokenSpent
	}
	if err != nil {
		return ProviderSetup{}, errorf(err, "complete a provider setup")
	}
	return p, nil
}

// ProviderSetupConnection returns what a completed setup's connection is, as it was posted. ErrNotFound when there is no such setup, or
// none that was completed.
func (s *Store) ProviderSetupConnection(ctx context.Context, id string) (secrets.Value, error) {
	sealed, err := one(ctx, s.readers, scanString, "SELECT connection FROM provider_setups WHERE id = ? AND completed_at <> 0", id)
	if err != nil {
		return secrets.Value{}, errorf(err, "read the connection of provider setup %s", id)
	}
	plain, err := s.unseal(sealed, sealedConnection.of(id))
	return secrets.New(plain), errorf(err, "read the connection of provider setup %s", id)
}

// CompleteProviderSetup spends the capability and keeps the connection, sealed. The same completion again, until the capability expires,
// is the repeat of one whose answer was lost: it changes nothing, and again says so. Anything else with a capability that is spent,
// expired or unknown is ErrTokenSpent.
func (s *Store) CompleteProviderSetup(ctx context.Context, hash, endpoint string, connection secrets.Value) (p ProviderSetup, again bool, err error) {
	if endpoint == "" || len(connection.Reveal()) == 0 {
		return p, false, errors.New("cannot complete a provider setup: it needs an endpoint and a connection")
	}
	now := s.now()
	p, err = inWrite(ctx, s, func(ctx context.Context, t *tx) (ProviderSetup, error) {
		p, err := one(ctx, t, scanSetup, selectSetup+" WHERE hash = ?", hash)
		if errors.Is(err, ErrNotFound) || err == nil && !now.Before(p.ExpiresAt) {
			return p, ErrTokenSpent
		} else if err != nil {
			return p, err
		}
		if !p.CompletedAt.IsZero() {
			again = true
			return p, s.sameConnection(ctx, t, p.ID, connection)
		}
		sealed, err := s.seal(connection.Reveal(), sealedConnection.of(p.ID))
		if err != nil {
			return p, err
		}
		p.Endpoint, p.CompletedAt = endpoint, now
		err = execOne(ctx, t, "UPDATE provider_setups SET endpoint = ?, connection = ?, completed_at = ? WHERE id = ? AND completed_at = 0",
			p.Endpoint, sealed, micros(now), p.ID)
		if errors.Is(err, ErrNotFound) {
			err = ErrTokenSpent
		}
		return p, err
	})
	return p, again, errorf(err, "complete a provider setup")
}

// sameConnection is nil when that is what the setup was completed with.
func (s *Store) sameConnection(ctx context.Context, t *tx, id string, connection secrets.Value) error {
	sealed, err := one(ctx, t, scanString, "SELECT connection FROM provider_setups WHERE id = ?", id)
	if err != nil {
		return err
	}
	plain, err := s.unseal(sealed, sealedConnection.of(id))
	if err == nil && !bytes.Equal(plain, connection.Reveal()) {
		err = ErrTokenSpent
	}
	return err
}

// DeleteProviderSetup forgets a setup with its connection. ErrNotFound when there is none.
func (s *Store) DeleteProviderSetup(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "DELETE FROM provider_setups WHERE id = ?", id)
	})
	return errorf(err, "forget provider setup %s", id)
}
