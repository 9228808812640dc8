package store

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// Errors that callers branch on.
var (
	// ErrNotFound says that there is no such row, or that a row names one that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a unique name is taken, or that the row is in a state that does not
	// allow what was asked.
	ErrConflict = errors.New("conflict")
	// ErrTransition says that a runner or a machine cannot move that way. Nothing was changed.
	ErrTransition = errors.New("transition is not allowed")
	// ErrTokenSpent says that a join token is spent, expired, for another host, or unknown.
	ErrTokenSpent = errors.New("join token is spent or expired")
	// ErrLeaseHeld says that another controller holds the database.
	ErrLeaseHeld = errors.New("another controller holds the database")
	// ErrLeaseLost says that another controller took the database from this one.
	ErrLeaseLost = errors.New("another controller took the database")
	// ErrNewerSchema says that a newer release has migrated the database.
	ErrNewerSchema = errors.New("the database belongs to a newer release")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// errorf wraps a cause that came out of the database as "cannot <do>: <cause>". The database's
// own words for a broken constraint become ErrConflict and ErrNotFound.
func errorf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot "+format+": %w", append(args, classify(err))...)
}

// classify maps the database's errors to those that callers branch on, and keeps the cause.
func classify(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	var se *sqlite.Error
	if !errors.As(err, &se) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return err
	}
	switch se.Code() {
	case sqlitelib.SQLITE_CONSTRAINT_UNIQUE, sqlitelib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case sqlitelib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("%w: a row it refers to does not exist, or others refer to it: %w", ErrNotFound, err)
	}
	return err
}

// NameTaken says that a write was refused with ErrConflict because another row has the same name.
func NameTaken(err error) bool {
	var se *sqlite.Error
	return errors.As(err, &se) && se.Code() == sqlitelib.SQLITE_CONSTRAINT_UNIQUE
}
