package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// querier is what reads and writes go through: the pool of readers, or a write transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// scanner is the row that a scan function reads.
type scanner interface{ Scan(dest ...any) error }

// all returns every row of a query. The rows are closed when it returns, so that the next
// statement finds the connection free.
func all[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (list []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := rows.Close(); err == nil && cerr != nil {
			list, err = nil, cerr
		}
	}()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// one returns the first row of a query, or ErrNotFound.
func one[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	list, err := all(ctx, q, scan, query, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	if len(list) == 0 {
		var zero T
		return zero, ErrNotFound
	}
	return list[0], nil
}

// exec runs a statement and returns how many rows it touched.
func exec(ctx context.Context, q querier, query string, args ...any) (int, error) {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// execOne runs a statement that must touch one row; otherwise it is ErrNotFound.
func execOne(ctx context.Context, q querier, query string, args ...any) error {
	n, err := exec(ctx, q, query, args...)
	if err == nil && n != 1 {
		return ErrNotFound
	}
	return err
}

// exists says whether a query has a row.
func exists(ctx context.Context, q querier, query string, args ...any) (bool, error) {
	list, err := all(ctx, q, scanString, query, args...)
	return len(list) > 0, err
}

func scanString(row scanner) (s string, err error) { return s, row.Scan(&s) }

// columns is a table's list of columns, in the order in which its scan function and its values
// have them. The first is the primary key.
type columns string

func (c columns) names() []string {
	names := strings.Split(string(c), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// insert is the statement that inserts a whole row.
func (c columns) insert(table string) string {
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, c, marks(len(c.names())))
}

// update is the statement that writes a whole row by its primary key, which comes first among
// the values and once more after them.
func (c columns) update(table string) string {
	names := c.names()
	return fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s = ?", table, strings.Join(names, " = ?, "), names[0])
}

// marks returns n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// anys turns a list of strings into arguments.
func anys[T ~string](list []T) []any {
	args := make([]any, len(list))
	for i, s := range list {
		args[i] = string(s)
	}
	return args
}

// where gathers the conditions of a query.
type where struct {
	conds []string
	args  []any
}

func (w *where) add(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

// in asks for one of values, of which there is at least one.
func (w *where) in(column string, values []any) {
	w.add(column+" IN ("+marks(len(values))+")", values...)
}

// String is the WHERE clause, empty without conditions.
func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// limit is the LIMIT clause, empty for none.
func limit(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" LIMIT %d", n)
}

// micros is a time as it is stored: microseconds since 1970, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// stamp rounds a time to what can be stored.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// timeInto scans a stored time.
type timeInto struct{ t *time.Time }

// Scan implements sql.Scanner.
func (d timeInto) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("stored time is a %T", src)
	}
	*d.t = time.Time{}
	if n != 0 {
		*d.t = time.UnixMicro(n).UTC()
	}
	return nil
}

// durationInto scans a stored duration.
type durationInto struct{ d *time.Duration }

// Scan implements sql.Scanner.
func (d durationInto) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("stored duration is a %T", src)
	}
	*d.d = time.Duration(n) * time.Microsecond
	return nil
}

// jsonList is a list as it is stored.
func jsonList[E any](list []E) string {
	if len(list) == 0 {
		return "[]"
	}
	return jsonText(list)
}

// jsonMap is a map as it is stored.
func jsonMap(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	return jsonText(m)
}

// jsonText marshals a list or a map of plain values, which cannot fail.
func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(raw)
}

// jsonInto scans a stored list or map; empty is nil.
type jsonInto[T any] struct{ v *T }

// Scan implements sql.Scanner.
func (d jsonInto[T]) Scan(src any) error {
	text, ok := src.(string)
	if !ok {
		return fmt.Errorf("stored JSON is a %T", src)
	}
	var v T
	if text != "[]" && text != "{}" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return fmt.Errorf("stored JSON is damaged: %w", err)
		}
	}
	*d.v = v
	return nil
}

// intoJSON, intoTime and intoDuration make scan targets.
func intoJSON[T any](v *T) jsonInto[T]           { return jsonInto[T]{v} }
func intoTime(t *time.Time) timeInto             { return timeInto{t} }
func intoDuration(d *time.Duration) durationInto { return durationInto{d} }
