package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxStatements bounds what a reader keeps: the texts are this package's own, but a limit in one may be any number.
const maxStatements = 256

// reader is the pool of connections that read. It keeps its statements prepared: parsing one costs more than running it,
// and every webhook and every decision runs the same few.
type reader struct {
	db *sql.DB

	mu    sync.RWMutex
	stmts map[string]*sql.Stmt // by text
}

// QueryContext runs a query with its prepared statement.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := r.prepare(ctx, query) //nolint:sqlclosecheck // it is kept; close closes it
	if err != nil {
		return nil, err
	}
	if s == nil {
		return r.db.QueryContext(ctx, query, args...)
	}
	return s.QueryContext(ctx, args...)
}

// ExecContext runs a statement, which the connections refuse if it writes.
func (r *reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.db.ExecContext(ctx, query, args...)
}

// prepare returns the statement of query, or nil when too many are kept already.
func (r *reader) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.RLock()
	s, n := r.stmts[query], len(r.stmts)
	r.mu.RUnlock()
	if s != nil || n >= maxStatements {
		return s, nil
	}
	fresh, err := r.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stmts[query]; s != nil { // somebody else was faster
		return s, fresh.Close() //nolint:sqlclosecheck // only the one that lost the race
	}
	r.stmts[query] = fresh
	return fresh, nil
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.stmts {
		errs = append(errs, s.Close())
	}
	clear(r.stmts)
	return errors.Join(append(errs, r.db.Close())...)
}
