package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func scanHolder(row scanner) (h Holder, err error) {
	return h, row.Scan(&h.ID, &h.Machine, &h.Host, &h.PID, intoTime(&h.RenewedAt), intoTime(&h.ExpiresAt))
}

const (
	selectHolder = "SELECT holder_id, machine, host, pid, renewed_at, expires_at FROM controller_lease WHERE id = 1"
	// selectHolder1 reads a lease of schema version 1, which named no machine.
	selectHolder1 = "SELECT holder_id, '', host, pid, renewed_at, expires_at FROM controller_lease WHERE id = 1"
)

// keepsOut is ErrLeaseHeld, naming host and process, when the lease h still keeps out another
// holder. One that runs on the same machine is not kept out: the file lock proves that nothing
// else there has the database.
func (h Holder) keepsOut(other Holder, now time.Time) error {
	if h.ID == other.ID || h.sameMachine(other) || !now.Before(h.ExpiresAt) {
		return nil
	}
	return fmt.Errorf("%w: %s, until %s unless it renews; stop it first, or start with --takeover if it is known to be gone",
		ErrLeaseHeld, h.who(), h.ExpiresAt.Format(time.RFC3339))
}

// sameMachine goes by the host names only when neither says which machine it is.
func (h Holder) sameMachine(other Holder) bool {
	return h.Machine == other.Machine && (h.Machine != "" || h.Host == other.Host)
}

// checkLease refuses a database that another machine's controller holds. It understands every
// schema there was, so that it can be asked before a migration; a database without a lease table
// is nobody's.
func checkLease(ctx context.Context, db querier, h Holder, now time.Time) error {
	fields, err := all(ctx, db, scanString, "SELECT name FROM pragma_table_info('controller_lease')")
	if err != nil || len(fields) == 0 {
		return err
	}
	query := selectHolder
	if !slices.Contains(fields, "machine") {
		query = selectHolder1
	}
	held, err := all(ctx, db, scanHolder, query)
	if err != nil || len(held) == 0 {
		return err
	}
	return held[0].keepsOut(h, now)
}

// CheckLease is ErrLeaseHeld, naming host and process, when the controller of another machine than
// h's holds the database at path, and nil when there is no database yet. It changes nothing.
func CheckLease(ctx context.Context, path string, h Holder, now time.Time) (err error) {
	defer func() { err = errorf(err, "use the database %s", path) }()
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := sql.Open("sqlite", dsn(abs, "query_only(1)")+"&mode=ro")
	if err != nil {
		return err
	}
	return errors.Join(checkLease(ctx, db, h, now), db.Close())
}

// AcquireLease takes the lease on the database for ttl. A lease of the same machine is reclaimed at
// once. One of another machine that has not expired is ErrLeaseHeld, naming host and process,
// unless takeover is set.
func (s *Store) AcquireLease(ctx context.Context, h Holder, ttl time.Duration, takeover bool) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		held, err := all(ctx, t, scanHolder, selectHolder)
		if err != nil {
			return err
		}
		if len(held) > 0 && !takeover {
			if err := held[0].keepsOut(h, now); err != nil {
				return err
			}
		}
		_, err = exec(ctx, t, `INSERT INTO controller_lease (id, holder_id, machine, host, pid, renewed_at, expires_at) VALUES (1, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET holder_id = excluded.holder_id, machine = excluded.machine, host = excluded.host, pid = excluded.pid,
			renewed_at = excluded.renewed_at, expires_at = excluded.expires_at`,
			h.ID, h.Machine, h.Host, h.PID, micros(now), micros(now.Add(ttl)))
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

// CheckHolder is ErrLeaseLost when that holder does not hold the lease, or let it run out.
func (s *Store) CheckHolder(ctx context.Context, holderID string) error {
	held, err := all(ctx, s.readers, scanHolder, selectHolder)
	if err == nil && (len(held) == 0 || held[0].ID != holderID || !s.now().Before(held[0].ExpiresAt)) {
		err = ErrLeaseLost
	}
	return errorf(err, "act on the lease on the database")
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
