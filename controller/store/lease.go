package store

import (
	"context"
	"fmt"
	"time"
)

func scanHolder(row scanner) (h Holder, err error) {
	return h, row.Scan(&h.ID, &h.Host, &h.PID, intoTime(&h.RenewedAt), intoTime(&h.ExpiresAt))
}

const selectHolder = "SELECT holder_id, host, pid, renewed_at, expires_at FROM controller_lease WHERE id = 1"

// AcquireLease takes the lease on the database for ttl. A lease of the same Host is reclaimed at
// once: the file lock proves that nothing else there has the database. One of another host that
// has not expired is ErrLeaseHeld, naming host and process, unless takeover is set.
func (s *Store) AcquireLease(ctx context.Context, h Holder, ttl time.Duration, takeover bool) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		held, err := all(ctx, t, scanHolder, selectHolder)
		if err != nil {
			return err
		}
		if len(held) > 0 && !takeover && held[0].ID != h.ID && held[0].Host != h.Host && now.Before(held[0].ExpiresAt) {
			return fmt.Errorf("%w: %s, until %s unless it renews; stop it first, or start with --takeover if it is known to be gone",
				ErrLeaseHeld, held[0].who(), held[0].ExpiresAt.Format(time.RFC3339))
		}
		_, err = exec(ctx, t, `INSERT INTO controller_lease (id, holder_id, host, pid, renewed_at, expires_at) VALUES (1, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET holder_id = excluded.holder_id, host = excluded.host, pid = excluded.pid,
			renewed_at = excluded.renewed_at, expires_at = excluded.expires_at`,
			h.ID, h.Host, h.PID, micros(now), micros(now.Add(ttl)))
		return err
	})
	return errorf(err, "take the lease on the database")
}

// RenewLease extends the lease of that holder by ttl from now, also when it has expired and
// nobody took it. ErrLeaseLost, naming who, when another controller holds it.
func (s *Store) RenewLease(ctx context.Context, holderID string, ttl time.Duration) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		n, err := exec(ctx, t, "UPDATE controller_lease SET renewed_at = ?, expires_at = ? WHERE id = 1 AND holder_id = ?",
			micros(now), micros(now.Add(ttl)), holderID)
		if err != nil || n == 1 {
			return err
		}
		held, err := all(ctx, t, scanHolder, selectHolder)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return fmt.Errorf("%w: one that has ended since", ErrLeaseLost)
		}
		return fmt.Errorf("%w: %s", ErrLeaseLost, held[0].who())
	})
	return errorf(err, "renew the lease on the database")
}

// ReleaseLease gives the lease up. One that another controller holds stays.
func (s *Store) ReleaseLease(ctx context.Context, holderID string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, "DELETE FROM controller_lease WHERE id = 1 AND holder_id = ?", holderID)
		return err
	})
	return errorf(err, "release the lease on the database")
}

// who names a holder for a person.
func (h Holder) who() string { return fmt.Sprintf("process %d on %s", h.PID, h.Host) }
