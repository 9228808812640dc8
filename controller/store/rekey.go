package store

import (
	"context"
	"fmt"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// rekeyBatch is how many values one transaction of Rekey re-encrypts.
const rekeyBatch = 100

// Rekey re-encrypts every sealed value that the keyring's newest key did not seal, in batches of
// one transaction each. It can be interrupted at any time and run again: it goes on where it
// stopped. It returns how many values it rewrote. Once it has returned without error no stored
// value needs an older key.
func (s *Store) Rekey(ctx context.Context) (int, error) {
	total, batch := 0, 0
	for _, c := range sealedColumns {
		for {
			n, err := s.rekeySome(ctx, c)
			total += n
			if err != nil {
				return total, errorf(err, "re-encrypt %s.%s", c.table, c.column)
			}
			if n == 0 {
				break
			}
			batch++
			if s.rekeyHook != nil {
				if err := s.rekeyHook(batch); err != nil {
					return total, errorf(err, "re-encrypt %s.%s", c.table, c.column)
				}
			}
		}
	}
	return total, nil
}

// rekeySome re-encrypts one batch of a column and returns how many values that were.
func (s *Store) rekeySome(ctx context.Context, c sealedColumn) (int, error) {
	newest := secrets.SealedPrefix(s.keys.Newest())
	scan := func(row scanner) (v [2]string, err error) { return v, row.Scan(&v[0], &v[1]) }
	find := fmt.Sprintf("SELECT id, %s FROM %s WHERE %s <> '' AND substr(%s, 1, %d) <> ? LIMIT ?", c.column, c.table, c.column, c.column, len(newest))
	replace := fmt.Sprintf("UPDATE %s SET %s = ? WHERE id = ?", c.table, c.column)
	return inWrite(ctx, s, func(ctx context.Context, t *tx) (int, error) {
		old, err := all(ctx, t, scan, find, newest, s.rekeyBatch)
		if err != nil {
			return 0, err
		}
		for _, v := range old {
			plain, err := s.keys.Open(v[1], c.of(v[0]))
			if err != nil {
				return 0, err
			}
			sealed, err := s.keys.Seal(plain, c.of(v[0]))
			if err != nil {
				return 0, err
			}
			if err := execOne(ctx, t, replace, sealed, v[0]); err != nil {
				return 0, err
			}
		}
		return len(old), nil
	})
}
