package store

import (
	"context"
	"database/sql"
	"errors"
)

// What tests need to see of the inside.

// Queued returns how many writes wait for the next group.
func (s *Store) Queued() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// Write runs a write function that gets a way to execute statements.
func (s *Store) Write(ctx context.Context, fn func(exec func(query string, args ...any) error) error) error {
	return s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return fn(func(query string, args ...any) error {
			_, err := t.ExecContext(ctx, query, args...)
			return err
		})
	})
}

// SetRekey sets how many values a transaction of Rekey re-encrypts and what is called after each.
func (s *Store) SetRekey(batch int, hook func(batch int) error) {
	s.rekeyBatch, s.rekeyHook = batch, hook
}

// Plan returns how the database would run a query, a line a step.
func (s *Store) Plan(ctx context.Context, query string, args ...any) ([]string, error) {
	scan := func(row scanner) (detail string, err error) {
		var a, b, c int
		return detail, row.Scan(&a, &b, &c, &detail)
	}
	return all(ctx, s.readers, scan, "EXPLAIN QUERY PLAN "+query, args...)
}

// WriterPragma reads a pragma of the writing connection.
func (s *Store) WriterPragma(ctx context.Context, name string) (string, error) {
	return inWrite(ctx, s, func(ctx context.Context, t *tx) (string, error) { return one(ctx, t, scanString, "PRAGMA "+name) })
}

// WriteThroughReader tries to write where only reads may go.
func (s *Store) WriteThroughReader(ctx context.Context, query string) error {
	_, err := s.readers.ExecContext(ctx, query)
	return err
}

// Changes returns how many rows the writing connection has changed in its life.
func (s *Store) Changes(ctx context.Context) int64 {
	scan := func(row scanner) (n int64, err error) { return n, row.Scan(&n) }
	n, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (int64, error) { return one(ctx, t, scan, "SELECT total_changes()") })
	if err != nil {
		panic(err)
	}
	return n
}

// KeptStatements returns how many prepared statements the readers keep.
func (s *Store) KeptStatements() int {
	s.readers.mu.RLock()
	defer s.readers.mu.RUnlock()
	return len(s.readers.stmts)
}

// ThisProcessOn is ThisProcess on a machine whose machine-id is in a file.
func ThisProcessOn(machineIDFile, path string) (Holder, error) {
	return thisProcess(machineIDFile, path)
}

// MigrateTo makes a database at path whose schema is of an earlier version.
func MigrateTo(ctx context.Context, path string, version int64) (err error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := migrations(db)
	if err != nil {
		return err
	}
	_, err = p.UpTo(ctx, version)
	return err
}
