package store

import (
	"context"
	"fmt"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// sealedColumn is a column whose values are sealed, each bound to its row.
type sealedColumn struct{ table, column string }

// The sealed columns. Rekey and the check of the key file go by sealedColumns.
var (
	sealedPrivateKey    = sealedColumn{"installations", "private_key"}
	sealedWebhookSecret = sealedColumn{"installations", "webhook_secret"}
	sealedPayload       = sealedColumn{"tasks", "payload"}
	sealedAnswer        = sealedColumn{"idempotency", "answer"}
	sealedAppKey        = sealedColumn{"github_apps", "private_key"}
	sealedAppHook       = sealedColumn{"github_apps", "webhook_secret"}
	sealedConnection    = sealedColumn{"provider_setups", "connection"}
	sealedProvider      = sealedColumn{"providers", "secret"}

	sealedColumns = []sealedColumn{
		sealedPrivateKey, sealedWebhookSecret, sealedPayload, sealedAnswer, sealedAppKey, sealedAppHook, sealedConnection, sealedProvider,
	}
)

// of binds a value of the column to its row.
func (c sealedColumn) of(row string) secrets.AAD {
	return secrets.AAD{Table: c.table, Column: c.column, Row: row}
}

// seal seals a value; an empty one stays empty.
func (s *Store) seal(plain []byte, aad secrets.AAD) (string, error) {
	if len(plain) == 0 {
		return "", nil
	}
	return s.keys.Seal(plain, aad)
}

// unseal opens a stored value.
func (s *Store) unseal(sealed string, aad secrets.AAD) ([]byte, error) {
	if sealed == "" {
		return nil, nil
	}
	return s.keys.Open(sealed, aad)
}

// checkKeys refuses a key file that cannot open what the database holds, at the start and not in
// the middle of the night.
func (s *Store) checkKeys(ctx context.Context) error {
	known := make(map[string]bool)
	for _, id := range s.keys.KeyIDs() {
		known[id] = true
	}
	prefix := len(secrets.SealedPrefix(s.keys.Newest()))
	for _, c := range sealedColumns {
		used, err := all(ctx, s.readers, scanString, fmt.Sprintf("SELECT DISTINCT substr(%s, 1, %d) FROM %s WHERE %s <> ''", c.column, prefix, c.table, c.column))
		if err != nil {
			return err
		}
		for _, p := range used {
			if id, ok := secrets.KeyIDOf(p); ok && !known[id] {
				return fmt.Errorf("%s.%s: key %s: %w", c.table, c.column, id, secrets.ErrUnknownKey)
			}
		}
	}
	return nil
}
