package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// maxBatch bounds how many writes share a transaction, so that the first of them does not wait
// long for the last.
const maxBatch = 256

// writer owns the one connection that writes. Writes commit in groups: the first of several
// concurrent writers leads, runs everybody's function inside one transaction, each in a
// savepoint of its own, and commits once. A lone writer leads at once and waits for nobody.
// While a group commits, which is where the disk is waited for, the next one gathers.
type writer struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // by text; only the leader touches it

	mu      sync.Mutex // guards what follows
	queue   []*write
	leading bool // someone leads, or has been told to
	closed  bool

	commits atomic.Int64 // transactions committed

	now func() time.Time
}

// write is one caller's part of a group.
type write struct {
	ctx      context.Context
	fn       func(context.Context, *tx) error
	err      error
	panicked any
	promoted bool      // told to lead, under the writer's mu
	wake     chan bool // true: lead; false: done
	records  *Audited  // what this write took along
}

// do runs fn in a write transaction and returns once it is durable, or with fn's error, having
// undone what fn did and nothing else. A cancelled ctx is heeded until fn starts and not after,
// so that a result is never in doubt and an interrupted statement cannot take the others' work
// with it. A panic of fn comes out of do.
func (w *writer) do(ctx context.Context, fn func(context.Context, *tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := &write{ctx: ctx, fn: fn, wake: make(chan bool, 1)}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue = append(w.queue, p)
	lead := !w.leading
	w.leading = true
	w.mu.Unlock()

	if !lead {
		select {
		case lead = <-p.wake:
		case <-ctx.Done():
			if w.withdraw(p) {
				return ctx.Err()
			}
			lead = <-p.wake
		}
	}
	if lead {
		w.lead(p)
	}
	if p.panicked != nil {
		panic(p.panicked)
	}
	return p.err
}

// withdraw takes p back from the queue. It fails once p is part of a group or told to lead one.
func (w *writer) withdraw(p *write) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.promoted {
		return false
	}
	for i, q := range w.queue {
		if q == p {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// lead runs the group that has gathered, hands the lead to the head of the next one, and wakes
// its own.
func (w *writer) lead(self *write) {
	w.mu.Lock()
	n := min(len(w.queue), maxBatch)
	group := w.queue[:n:n]
	w.queue = append([]*write(nil), w.queue[n:]...)
	w.mu.Unlock()

	defer func() {
		w.mu.Lock()
		if len(w.queue) > 0 {
			w.queue[0].promoted = true
			w.queue[0].wake <- true
		} else {
			w.leading = false
		}
		w.mu.Unlock()
		for _, p := range group {
			if p != self {
				p.wake <- false
			}
		}
	}()
	for rest := group; len(rest) > 0; {
		rest = rest[w.transact(rest):]
	}
}

// errGroupLost is what writes get whose transaction another write broke (a full disk, an I/O error).
var errGroupLost = errors.New("the transaction it shared was rolled back by the database; try again")

// transact runs writes in one transaction until all are run or the transaction breaks, and
// returns how many it ran. Each has its err set when it returns.
func (w *writer) transact(group []*write) int {
	bg := context.Background()
	if err := w.begin(bg); err != nil {
		for _, p := range group {
			p.err = fmt.Errorf("cannot begin a write: %w", err)
		}
		return len(group)
	}
	var good []*write // succeeded so far, waiting for the commit
	for i, p := range group {
		if p.err = p.ctx.Err(); p.err != nil {
			continue
		}
		if intact := w.runOne(bg, p, len(group) > 1); !intact {
			w.abandon(bg, good, errGroupLost)
			return i + 1
		}
		if p.err == nil && p.panicked == nil {
			good = append(good, p)
		}
	}
	if len(good) == 0 {
		w.abandon(bg, nil, nil)
		return len(group)
	}
	if _, err := w.exec(bg, "COMMIT"); err != nil {
		w.abandon(bg, good, fmt.Errorf("cannot commit: %w", err))
		return len(group)
	}
	w.commits.Add(1)
	for _, p := range good {
		if p.records != nil {
			p.records.done = true
		}
	}
	return len(group)
}

// begin starts a transaction that may write at once, so that it never fails half-way for a lock.
func (w *writer) begin(ctx context.Context) error {
	_, err := w.exec(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		return nil
	}
	_, _ = w.exec(ctx, "ROLLBACK") // in case an earlier one was left open
	_, err = w.exec(ctx, "BEGIN IMMEDIATE")
	return err
}

// abandon rolls the transaction back and gives err to the writes whose work is gone with it.
func (w *writer) abandon(ctx context.Context, lost []*write, err error) {
	_, _ = w.exec(ctx, "ROLLBACK") // fails when the database has rolled back already
	for _, p := range lost {
		p.err = err
	}
}

// runOne runs p's function, in a savepoint if it shares the transaction. It returns false when
// the whole transaction is gone; p.err says why.
func (w *writer) runOne(ctx context.Context, p *write, shared bool) (intact bool) {
	if shared {
		if _, p.err = w.exec(ctx, "SAVEPOINT one"); p.err != nil {
			return false
		}
	}
	w.call(p)
	failed := p.err != nil || p.panicked != nil
	if !shared {
		return true // alone: transact rolls back
	}
	if failed {
		if _, err := w.exec(ctx, "ROLLBACK TO one"); err != nil {
			return false
		}
	}
	if _, err := w.exec(ctx, "RELEASE one"); err != nil {
		if !failed {
			p.err = err
		}
		return false
	}
	return true
}

// call runs p's function and keeps a panic from everyone else in the group.
func (w *writer) call(p *write) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked = fmt.Sprintf("write panicked: %v\n\n%s", v, debug.Stack())
		}
	}()
	ctx, t := context.WithoutCancel(p.ctx), &tx{w: w}
	if p.err = p.fn(ctx, t); p.err != nil {
		return
	}
	if a, ok := ctx.Value(auditedKey{}).(*Audited); ok && !a.done {
		p.err = a.record(ctx, t, w.now())
		p.records = a
	}
}

// close waits for the writes under way, refuses further ones, and closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	lead := !w.leading
	last := &write{ctx: context.Background(), fn: func(context.Context, *tx) error { return nil }, wake: make(chan bool, 1)}
	w.queue = append(w.queue, last)
	w.leading = true
	w.mu.Unlock()
	if !lead {
		lead = <-last.wake
	}
	if lead {
		w.lead(last)
	}
	for _, s := range w.stmts {
		_ = s.Close()
	}
	return w.conn.Close()
}

func (w *writer) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := w.prepare(ctx, query) //nolint:sqlclosecheck // kept, and closed with the connection
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// prepare returns the prepared statement of query, kept for the connection's life: the texts are
// this package's own, so there are few.
func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := w.stmts[query]; s != nil {
		return s, nil
	}
	s, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	w.stmts[query] = s
	return s, nil
}

// tx is the transaction that a write function works in.
type tx struct{ w *writer }

func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.w.exec(ctx, query, args...)
}

func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.w.prepare(ctx, query) //nolint:sqlclosecheck // kept, and closed with the connection
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}
