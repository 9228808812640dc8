package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	_ "modernc.org/sqlite" // registers the database/sql driver

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// Options open a store.
type Options struct {
	Path string // database file; made 0600 when it does not exist
	Keys *secrets.Keyring
	// Holder is who opens the database, to take its lease then (AcquireLease). With it, a database
	// that the controller of another machine holds is refused with ErrLeaseHeld, before its schema
	// is touched, unless Takeover is set. Without it nobody looks.
	Holder   Holder
	Takeover bool
	Now      func() time.Time // nil is time.Now
	Logger   *slog.Logger     // nil is slog.Default
}

// Store is the fleet's database. It is safe for concurrent use. A write returns when it is
// durable; a read sees every write that returned before it began.
type Store struct {
	path    string
	keys    *secrets.Keyring
	clock   func() time.Time
	log     *slog.Logger
	writeDB *sql.DB
	writer  *writer
	readers *reader

	rekeyBatch int                   // values per transaction of Rekey
	rekeyHook  func(batch int) error // for tests: called after each batch
}

// busyTimeout is how long a statement waits for a lock that another process holds.
const busyTimeout = 10 * time.Second

// Open opens the database at o.Path, making it when it does not exist, and brings its schema up
// to date. It returns ErrNewerSchema for a database of a newer release, and an error when the
// key file does not fit what is sealed in it. What keeps a second controller out for good is
// LockFile, taken before, and AcquireLease, taken after.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Path == "" || o.Keys == nil {
		return nil, errors.New("cannot open the store: it needs a path and a keyring")
	}
	s := &Store{path: o.Path, keys: o.Keys, clock: o.Now, log: o.Logger, rekeyBatch: rekeyBatch}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if err := s.open(ctx, o); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("cannot open the database %s: %w", o.Path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	abs, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	// SQLite gives the WAL the mode of the database file, which it would make 0644.
	f, err := os.OpenFile(abs, os.O_CREATE|os.O_RDWR, fs.FileMode(0o600))
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if s.writeDB, err = sql.Open("sqlite", dsn(abs, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "journal_size_limit(67108864)")); err != nil {
		return err
	}
	s.writeDB.SetMaxOpenConns(1)
	// A second controller of a newer release must not migrate the database under the first.
	if o.Holder != (Holder{}) && !o.Takeover {
		if err := checkLease(ctx, s.writeDB, o.Holder, s.now()); err != nil {
			return err
		}
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	conn, err := s.writeDB.Conn(ctx)
	if err != nil {
		return err
	}
	s.writer = &writer{conn: conn, stmts: make(map[string]*sql.Stmt), now: s.now}
	db, err := sql.Open("sqlite", dsn(abs, "query_only(1)")+"&mode=ro")
	if err != nil {
		return err
	}
	n := max(4, runtime.NumCPU())
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	s.readers = &reader{db: db, stmts: map[string]*sql.Stmt{}}
	return s.checkKeys(ctx)
}

// dsn names the file with the pragmas that every connection to it sets.
func dsn(abs string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}, pragmas...)}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}
	return u.String()
}

// Close waits for the writes under way and closes the database. Later calls fail, writes with ErrClosed.
func (s *Store) Close() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.writeDB != nil {
		errs = append(errs, s.writeDB.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot close the database: %w", err)
	}
	return nil
}

// now is the time, as it can be stored.
func (s *Store) now() time.Time { return stamp(s.clock()) }

// Commits is how many transactions have been committed since Open. Writes that come together share one, so it says how well the
// disk's waits are shared.
func (s *Store) Commits() int64 { return s.writer.commits.Load() }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	_, err := exists(ctx, s.readers, "SELECT key FROM settings LIMIT 1")
	return errorf(err, "read the database")
}

// inWrite runs fn in a write transaction, shared with whoever writes at the same time, and returns
// its result when it is durable.
func inWrite[T any](ctx context.Context, s *Store, fn func(context.Context, *tx) (T, error)) (T, error) {
	var result T
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) (err error) {
		result, err = fn(ctx, t)
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return result, nil
}
