package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

const providerColumns columns = `id, name, kind, config, secret, shapes, enabled, paused_at, paused_by, pause_reason, max_machines,
	idle_timeout, cooldown, failure_streak, failed_at, held_until, hold_reason, fenced_at, fence_reason, image, swept_at, created_at, updated_at`

const selectProvider = "SELECT " + string(providerColumns) + " FROM providers"

func (p *Provider) values(secret string) []any {
	return []any{p.ID, p.Name, p.Kind, p.Config, secret, jsonList(p.Shapes), p.Enabled, micros(p.PausedAt), p.PausedBy, p.PauseReason, p.MaxMachines,
		p.IdleTimeout.Microseconds(), p.Cooldown.Microseconds(), p.FailureStreak, micros(p.FailedAt), micros(p.HeldUntil), p.HoldReason,
		micros(p.FencedAt), p.FenceReason, jsonText(p.Image), micros(p.SweptAt), micros(p.CreatedAt), micros(p.UpdatedAt)}
}

func (s *Store) scanProvider(row scanner) (p Provider, err error) {
	var sealed string
	if err := row.Scan(&p.ID, &p.Name, &p.Kind, &p.Config, &sealed, intoJSON(&p.Shapes), &p.Enabled, intoTime(&p.PausedAt), &p.PausedBy, &p.PauseReason,
		&p.MaxMachines, intoDuration(&p.IdleTimeout), intoDuration(&p.Cooldown), &p.FailureStreak, intoTime(&p.FailedAt), intoTime(&p.HeldUntil),
		&p.HoldReason, intoTime(&p.FencedAt), &p.FenceReason, intoJSON(&p.Image), intoTime(&p.SweptAt), intoTime(&p.CreatedAt), intoTime(&p.UpdatedAt)); err != nil {
		return p, err
	}
	plain, err := s.unseal(sealed, sealedProvider.of(p.ID))
	p.Secret = secrets.New(plain)
	return p, err
}

// CreateProvider writes a new provider, with a new ID unless it has one, and returns it. ErrConflict when its name is taken.
func (s *Store) CreateProvider(ctx context.Context, p Provider) (Provider, error) {
	if p.ID == "" {
		p.ID = NewID(idProvider)
	}
	if p.Name == "" || p.Kind == "" {
		return Provider{}, errors.New("cannot create a provider: it needs a name and a kind")
	}
	p.CreatedAt = s.now()
	p.UpdatedAt = p.CreatedAt
	p.PausedAt, p.FencedAt = stamp(p.PausedAt), stamp(p.FencedAt)
	p.FailureStreak, p.FailedAt, p.HeldUntil, p.HoldReason, p.SweptAt = 0, time.Time{}, time.Time{}, "", time.Time{}
	sealed, err := s.seal(p.Secret.Reveal(), sealedProvider.of(p.ID))
	if err != nil {
		return Provider{}, errorf(err, "create provider %q", p.Name)
	}
	err = s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, providerColumns.insert("providers"), p.values(sealed)...)
		return err
	})
	if err != nil {
		return Provider{}, errorf(err, "create provider %q", p.Name)
	}
	return p, nil
}

// UpdateProvider writes what an operator declares of a provider: its name, configuration, shapes, limits and whether it is enabled.
// An empty secret keeps the stored one. What the loops note of it has methods of its own. The kind cannot change.
func (s *Store) UpdateProvider(ctx context.Context, p Provider) error {
	sealed, err := s.seal(p.Secret.Reveal(), sealedProvider.of(p.ID))
	if err != nil {
		return errorf(err, "update provider %s", p.ID)
	}
	now := s.now()
	return s.setProvider(ctx, p.ID, `name = ?, config = ?, shapes = ?, enabled = ?, max_machines = ?, idle_timeout = ?, cooldown = ?, updated_at = ?,
		secret = CASE WHEN ? = '' THEN secret ELSE ? END`,
		p.Name, p.Config, jsonList(p.Shapes), p.Enabled, p.MaxMachines, p.IdleTimeout.Microseconds(), p.Cooldown.Microseconds(), micros(now), sealed, sealed)
}

// Provider returns one provider, its secret opened. ErrNotFound when there is none.
func (s *Store) Provider(ctx context.Context, id string) (Provider, error) {
	p, err := one(ctx, s.readers, s.scanProvider, selectProvider+" WHERE id = ?", id)
	return p, errorf(err, "read provider %s", id)
}

// Providers returns all providers by name, their secrets opened.
func (s *Store) Providers(ctx context.Context) ([]Provider, error) {
	list, err := all(ctx, s.readers, s.scanProvider, selectProvider+" ORDER BY name")
	return list, errorf(err, "list providers")
}

// DeleteProvider deletes a provider and the tombstones of its machines. ErrConflict while one of its machines is not deleted: nobody
// could take it away any more.
func (s *Store) DeleteProvider(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if used, err := exists(ctx, t, "SELECT id FROM machines WHERE provider_id = ? AND "+liveMachine+" LIMIT 1", id); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: it has machines; delete or release them first", ErrConflict)
		}
		if _, err := exec(ctx, t, "DELETE FROM machines WHERE provider_id = ?", id); err != nil {
			return err
		}
		return execOne(ctx, t, "DELETE FROM providers WHERE id = ?", id)
	})
	return errorf(err, "delete provider %s", id)
}

// PauseProvider keeps a provider from making machines; what is there goes on, and is deleted as ever.
func (s *Store) PauseProvider(ctx context.Context, id, by, reason string) error {
	return s.setProvider(ctx, id, "paused_at = CASE WHEN paused_at = 0 THEN ? ELSE paused_at END, paused_by = ?, pause_reason = ?", micros(s.now()), by, reason)
}

// ResumeProvider ends a pause, and a stand-down after failures with it: somebody says that the cause is mended.
func (s *Store) ResumeProvider(ctx context.Context, id string) error {
	return s.setProvider(ctx, id, "paused_at = 0, paused_by = '', pause_reason = '', failure_streak = 0, failed_at = 0, held_until = 0, hold_reason = ''")
}

// HoldProvider keeps a provider from making machines until then. It never shortens a hold.
func (s *Store) HoldProvider(ctx context.Context, id string, until time.Time, reason string) error {
	return s.setProvider(ctx, id, "hold_reason = CASE WHEN held_until < ? THEN ? ELSE hold_reason END, held_until = CASE WHEN held_until < ? THEN ? ELSE held_until END",
		micros(until), reason, micros(until), micros(until))
}

// FenceProviders has nothing made or deleted anywhere until every machine's row has been proved by an inspection. It is for a database
// that may be older than the world: one that was restored from a copy. A fence that stands is set anew.
func (s *Store) FenceProviders(ctx context.Context, reason string) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, "UPDATE providers SET fenced_at = ?, fence_reason = ?", micros(now), reason)
		return err
	})
	return errorf(err, "fence the providers")
}

// LiftFence ends a fence, unless it was set anew since it was seen to stand from since. ErrConflict then, or when one of the
// provider's machines is not proved.
func (s *Store) LiftFence(ctx context.Context, id string, since time.Time) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if open, err := exists(ctx, t, "SELECT id FROM machines WHERE provider_id = ? AND "+unprovedMachine+" LIMIT 1", id, micros(since)); err != nil {
			return err
		} else if open {
			return fmt.Errorf("%w: not every machine of it has been proved", ErrConflict)
		}
		n, err := exec(ctx, t, "UPDATE providers SET fenced_at = 0, fence_reason = '' WHERE id = ? AND fenced_at = ?", id, micros(since))
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: it was fenced again", ErrConflict)
		}
		return err
	})
	return errorf(err, "lift the fence of provider %s", id)
}

// SetProviderImage records what new machines are made from.
func (s *Store) SetProviderImage(ctx context.Context, id string, img MachineImage) error {
	return s.setProvider(ctx, id, "image = ?", jsonText(img))
}

// SetProviderSwept records that what is at the provider was compared with the rows, as it was at a time.
func (s *Store) SetProviderSwept(ctx context.Context, id string, at time.Time) error {
	return s.setProvider(ctx, id, "swept_at = ?", micros(at))
}

func (s *Store) setProvider(ctx context.Context, id, set string, values ...any) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE providers SET "+set+" WHERE id = ?", append(values, id)...)
	})
	return errorf(err, "update provider %s", id)
}
