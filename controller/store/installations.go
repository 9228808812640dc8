package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

const installationColumns columns = `id, name, base_url, app_id, installation_id, account, account_type,
	private_key, webhook_secret, hold_until, hold_reason, last_delivery_at, created_at, updated_at`

// CreateInstallation writes a new installation, with a new ID unless it has one, and returns it.
// ErrConflict when its name, or the same installation of the same GitHub, is there already.
func (s *Store) CreateInstallation(ctx context.Context, in Installation) (Installation, error) {
	list, err := s.CreateInstallations(ctx, []Installation{in})
	if err != nil {
		return Installation{}, err
	}
	return list[0], nil
}

// CreateInstallations is CreateInstallation for several, all or none.
func (s *Store) CreateInstallations(ctx context.Context, list []Installation) ([]Installation, error) {
	list = slices.Clone(list)
	sealed := make([][2]string, len(list))
	for i := range list {
		in := &list[i]
		if in.ID == "" {
			in.ID = NewID(idInstallation)
		}
		in.CreatedAt = s.now()
		in.UpdatedAt = in.CreatedAt
		in.HoldUntil, in.LastDeliveryAt = stamp(in.HoldUntil), stamp(in.LastDeliveryAt)
		key, hook, err := s.sealInstallation(*in)
		if err != nil {
			return nil, errorf(err, "create installation %q", in.Name)
		}
		sealed[i] = [2]string{key, hook}
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		for i, in := range list {
			if _, err := exec(ctx, t, installationColumns.insert("installations"),
				in.ID, in.Name, in.BaseURL, in.AppID, in.InstallationID, in.Account, in.AccountType, sealed[i][0], sealed[i][1],
				micros(in.HoldUntil), in.HoldReason, micros(in.LastDeliveryAt), micros(in.CreatedAt), micros(in.UpdatedAt)); err != nil {
				return errorf(err, "create installation %q", in.Name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// UpdateInstallation writes what an operator declares of an installation. Empty secrets keep
// those that are stored; the hold, the last delivery and the creation time have methods of their
// own and are not written.
func (s *Store) UpdateInstallation(ctx context.Context, in Installation) error {
	key, hook, err := s.sealInstallation(in)
	if err != nil {
		return errorf(err, "update installation %s", in.ID)
	}
	now := s.now()
	err = s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, `UPDATE installations SET name = ?, base_url = ?, app_id = ?, installation_id = ?,
			account = ?, account_type = ?, updated_at = ?,
			private_key = CASE WHEN ? = '' THEN private_key ELSE ? END,
			webhook_secret = CASE WHEN ? = '' THEN webhook_secret ELSE ? END
			WHERE id = ?`,
			in.Name, in.BaseURL, in.AppID, in.InstallationID, in.Account, in.AccountType, micros(now),
			key, key, hook, hook, in.ID)
	})
	return errorf(err, "update installation %s", in.ID)
}

// Installation returns one installation, its secrets opened. ErrNotFound when there is none.
func (s *Store) Installation(ctx context.Context, id string) (Installation, error) {
	in, err := one(ctx, s.readers, s.scanInstallation, "SELECT "+string(installationColumns)+" FROM installations WHERE id = ?", id)
	return in, errorf(err, "read installation %s", id)
}

// Installations returns all installations by name, their secrets opened.
func (s *Store) Installations(ctx context.Context) ([]Installation, error) {
	list, err := all(ctx, s.readers, s.scanInstallation, "SELECT "+string(installationColumns)+" FROM installations ORDER BY name")
	return list, errorf(err, "list installations")
}

// DeleteInstallation deletes an installation and its jobs. ErrConflict while it has pools or live
// runners. What is left of its runners' registrations counts as gone: nobody can ask any more.
func (s *Store) DeleteInstallation(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if used, err := exists(ctx, t, "SELECT name FROM pools WHERE installation_id = ? LIMIT 1", id); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: it has pools; delete them first", ErrConflict)
		}
		if used, err := exists(ctx, t, "SELECT id FROM runners WHERE installation_id = ? AND "+liveRunner+" LIMIT 1", id); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: it has live runners; wait until they are gone", ErrConflict)
		}
		if _, err := exec(ctx, t, "UPDATE runners SET deregistered = TRUE WHERE installation_id = ?", id); err != nil {
			return err
		}
		if _, err := exec(ctx, t, "DELETE FROM grants WHERE scope_id = ?", id); err != nil {
			return err
		}
		return execOne(ctx, t, "DELETE FROM installations WHERE id = ?", id)
	})
	return errorf(err, "delete installation %s", id)
}

// HoldInstallation keeps background sweeps from an installation until then. It never shortens a
// hold: an earlier end than the stored one changes nothing.
func (s *Store) HoldInstallation(ctx context.Context, id string, until time.Time, reason string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		n, err := exec(ctx, t, "UPDATE installations SET hold_until = ?, hold_reason = ? WHERE id = ? AND hold_until < ?",
			micros(until), reason, id, micros(until))
		if err != nil || n == 1 {
			return err
		}
		known, err := exists(ctx, t, "SELECT id FROM installations WHERE id = ?", id)
		if err == nil && !known {
			return ErrNotFound
		}
		return err
	})
	return errorf(err, "hold installation %s", id)
}

// sealInstallation seals the two secrets. An empty one stays empty.
func (s *Store) sealInstallation(in Installation) (key, hook string, err error) {
	key, err1 := s.seal(in.PrivateKey.Reveal(), sealedPrivateKey.of(in.ID))
	hook, err2 := s.seal(in.WebhookSecret.Reveal(), sealedWebhookSecret.of(in.ID))
	return key, hook, errors.Join(err1, err2)
}

func (s *Store) scanInstallation(row scanner) (in Installation, err error) {
	var key, hook string
	if err := row.Scan(&in.ID, &in.Name, &in.BaseURL, &in.AppID, &in.InstallationID, &in.Account, &in.AccountType,
		&key, &hook, intoTime(&in.HoldUntil), &in.HoldReason, intoTime(&in.LastDeliveryAt),
		intoTime(&in.CreatedAt), intoTime(&in.UpdatedAt)); err != nil {
		return in, err
	}
	rawKey, err1 := s.unseal(key, sealedPrivateKey.of(in.ID))
	rawHook, err2 := s.unseal(hook, sealedWebhookSecret.of(in.ID))
	in.PrivateKey, in.WebhookSecret = secrets.New(rawKey), secrets.New(rawHook)
	return in, errors.Join(err1, err2)
}
