// Package serve puts a controller together as it is shipped: its database with the locks that keep others out, its HTTP server and
// local socket, and the agent inside it. `zoomies controller`, the demo and the end-to-end tests run the same. It must never decide
// anything, nor know where settings come from.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Files are the paths of a controller's database and of its keys.
type Files struct{ Database, Keys string }

// Database is an open database that is this process's alone.
type Database struct {
	Store  *store.Store
	Holder store.Holder
	unlock func() error
}

// Open takes the file lock, the keys, the database and the lease, in that order. With takeover it does so although another
// controller holds them.
func Open(ctx context.Context, f Files, takeover bool, log *slog.Logger) (*Database, error) {
	unlock, err := store.LockFile(f.Database)
	if err != nil {
		if !takeover || !errors.Is(err, store.ErrLeaseHeld) {
			return nil, fmt.Errorf("cannot start: %w", err)
		}
		log.Warn("starting although another process holds the database", "err", err)
		unlock = func() error { return nil }
	}
	db, err := open(ctx, f, takeover, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start: %w", err), unlock())
	}
	db.unlock = unlock
	return db, nil
}

func open(ctx context.Context, f Files, takeover bool, log *slog.Logger) (*Database, error) {
	holder, err := store.ThisProcess(f.Database)
	if err != nil {
		return nil, err
	}
	keys, err := store.OpenKeys(ctx, f.Database, f.Keys, holder, takeover)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, store.Options{Path: f.Database, Keys: keys, Holder: holder, Takeover: takeover, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := st.AcquireLease(ctx, holder, controller.LeaseTTL, takeover); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &Database{Store: st, Holder: holder}, nil
}

// releaseTimeout bounds how long giving a database back may take.
const releaseTimeout = 5 * time.Second

// Close gives the lease back, closes the database, and lets go of the lock.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	return errors.Join(d.Store.ReleaseLease(ctx, d.Holder.ID), d.Store.Close(), d.unlock())
}
