package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// AuditRow is one mutation: who did what to what. Before and After are the object as the API shows
// it, in JSON, so they hold no secret; either is empty where there is none.
type AuditRow struct {
	Seq        int64 // 1, 2, 3, ... without a gap
	At         time.Time
	ActorKind  string
	ActorID    string
	ActorName  string
	Via        string // the session or API token, by ID
	Address    string
	RequestID  string
	Action     string // the API's operation
	ObjectKind string
	ObjectID   string
	ObjectName string
	Before     string
	After      string
	PrevHash   string // the hash of the row before; empty for the first
	Hash       string
}

// digest is the row's hash: SHA-256 over everything else in it, the hash before it too, as JSON in
// this order of fields.
func (r *AuditRow) digest() string {
	raw, err := json.Marshal([]any{r.Seq, micros(r.At), r.ActorKind, r.ActorID, r.ActorName, r.Via, r.Address, r.RequestID,
		r.Action, r.ObjectKind, r.ObjectID, r.ObjectName, r.Before, r.After, r.PrevHash})
	if err != nil { // strings and numbers only
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

const auditColumns columns = `seq, at, actor_kind, actor_id, actor_name, via, address, request_id, action,
	object_kind, object_id, object_name, before, after, prev_hash, hash`

const selectAudit = "SELECT " + string(auditColumns) + " FROM audit"

func (r *AuditRow) values() []any {
	return []any{r.Seq, micros(r.At), r.ActorKind, r.ActorID, r.ActorName, r.Via, r.Address, r.RequestID, r.Action,
		r.ObjectKind, r.ObjectID, r.ObjectName, r.Before, r.After, r.PrevHash, r.Hash}
}

func scanAudit(row scanner) (r AuditRow, err error) {
	err = row.Scan(&r.Seq, intoTime(&r.At), &r.ActorKind, &r.ActorID, &r.ActorName, &r.Via, &r.Address, &r.RequestID, &r.Action,
		&r.ObjectKind, &r.ObjectID, &r.ObjectName, &r.Before, &r.After, &r.PrevHash, &r.Hash)
	return r, err
}

// Audited is what has to be written together with a mutation: its audit row and, when the caller
// gave an idempotency key, the claim on that key. The first write that succeeds under a context
// with it takes it along, in the same transaction.
type Audited struct {
	Row   AuditRow
	Claim *Claim
	done  bool // only the writer touches it while a write runs
}

// Done says that the row was written. Ask when no write under its context is running.
func (a *Audited) Done() bool { return a.done }

type auditedKey struct{}

// WithAudited returns a context whose first successful write records a.
func WithAudited(ctx context.Context, a *Audited) context.Context {
	return context.WithValue(ctx, auditedKey{}, a)
}

// WithoutAudit returns a context whose writes record nothing: they are no part of what was asked for, and may outlive its failure.
func WithoutAudit(ctx context.Context) context.Context {
	return context.WithValue(ctx, auditedKey{}, nil)
}

// record writes what the context of a write wants recorded with it.
func (a *Audited) record(ctx context.Context, t *tx, now time.Time) error {
	if a.Claim != nil {
		if err := a.Claim.insert(ctx, t, a.Row.ObjectID, now); err != nil {
			return err
		}
	}
	return appendAudit(ctx, t, a.Row, now)
}

// AppendAudit writes the row of a mutation that changed nothing in the store, such as one at GitHub.
func (s *Store) AppendAudit(ctx context.Context, a *Audited) error {
	if a.done {
		return nil
	}
	err := s.writer.do(WithAudited(ctx, a), func(context.Context, *tx) error { return nil })
	return errorf(err, "write the audit row of %s", a.Row.Action)
}

// auditHead is the newest row's number and hash.
type auditHead struct {
	seq  int64
	hash string
}

func scanAuditHead(row scanner) (h auditHead, err error) { return h, row.Scan(&h.seq, &h.hash) }

func readAuditHead(ctx context.Context, q querier) (auditHead, error) {
	h, err := one(ctx, q, scanAuditHead, "SELECT seq, hash FROM audit_head WHERE id = 1")
	if errors.Is(err, ErrNotFound) {
		return auditHead{}, nil
	}
	return h, err
}

func appendAudit(ctx context.Context, t *tx, r AuditRow, now time.Time) error {
	head, err := readAuditHead(ctx, t)
	if err != nil {
		return err
	}
	r.Seq, r.At, r.PrevHash = head.seq+1, now, head.hash
	r.Hash = r.digest()
	if _, err := exec(ctx, t, auditColumns.insert("audit"), r.values()...); err != nil {
		return err
	}
	_, err = exec(ctx, t, `INSERT INTO audit_head (id, seq, hash) VALUES (1, ?, ?)
		ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`, r.Seq, r.Hash)
	return err
}

// AuditFilter selects audit rows. Zero fields select all.
type AuditFilter struct {
	ActorID, ObjectID, ObjectKind, Action string
	Since, Until                          time.Time // Until is exclusive
	Before                                int64     // only rows with a smaller number
	After                                 int64     // only rows with a greater number
	Limit                                 int
}

// AuditRows returns rows, newest first.
func (s *Store) AuditRows(ctx context.Context, f AuditFilter) ([]AuditRow, error) {
	query, args := f.query()
	list, err := all(ctx, s.readers, scanAudit, query, args...)
	return list, errorf(err, "read the audit log")
}

func (f AuditFilter) query() (string, []any) {
	var w where
	for _, is := range []struct{ column, value string }{
		{"actor_id", f.ActorID}, {"object_id", f.ObjectID}, {"object_kind", f.ObjectKind}, {"action", f.Action},
	} {
		if is.value != "" {
			w.add(is.column+" = ?", is.value)
		}
	}
	if !f.Since.IsZero() {
		w.add("at >= ?", micros(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("at < ?", micros(f.Until))
	}
	if f.Before > 0 {
		w.add("seq < ?", f.Before)
	}
	if f.After > 0 {
		w.add("seq > ?", f.After)
	}
	return selectAudit + w.String() + " ORDER BY seq DESC" + limit(f.Limit), w.args
}

// AuditVerdict is what a check of the whole chain found.
type AuditVerdict struct {
	Rows     int64  // rows that were read
	Head     string // hash of the last row that holds; note it down to prove later that nothing before it was changed
	BrokenAt int64  // number of the first row that is missing or edited; 0 when the chain holds
	Why      string
}

const auditVerifyBatch = 1000

// VerifyAudit reads the whole chain. Broken chains are a verdict, not an error.
func (s *Store) VerifyAudit(ctx context.Context) (AuditVerdict, error) {
	// The head is read first: rows that come meanwhile only make the chain longer.
	head, err := readAuditHead(ctx, s.readers)
	if err != nil {
		return AuditVerdict{}, errorf(err, "read the head of the audit log")
	}
	var v AuditVerdict
	broken := func(seq int64, why string) (AuditVerdict, error) {
		v.BrokenAt, v.Why = seq, why
		return v, nil
	}
	hash := ""
	for {
		rows, err := all(ctx, s.readers, scanAudit, selectAudit+" WHERE seq > ? ORDER BY seq LIMIT ?", v.Rows, auditVerifyBatch)
		if err != nil {
			return v, errorf(err, "read the audit log")
		}
		for i := range rows {
			r := &rows[i]
			switch {
			case r.Seq != v.Rows+1:
				return broken(v.Rows+1, fmt.Sprintf("row %d is missing", v.Rows+1))
			case r.PrevHash != hash:
				return broken(r.Seq, fmt.Sprintf("row %d does not follow the row before it", r.Seq))
			case r.digest() != r.Hash:
				return broken(r.Seq, fmt.Sprintf("row %d was edited", r.Seq))
			case r.Seq == head.seq && r.Hash != head.hash:
				return broken(r.Seq, fmt.Sprintf("row %d is not the one that was written last", r.Seq))
			}
			v.Rows, hash, v.Head = r.Seq, r.Hash, r.Hash
		}
		if len(rows) < auditVerifyBatch {
			break
		}
	}
	if v.Rows < head.seq {
		return broken(v.Rows+1, fmt.Sprintf("rows %d to %d are missing from the end", v.Rows+1, head.seq))
	}
	return v, nil
}
