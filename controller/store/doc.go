// Package store is the only place where SQL is written. It keeps the fleet in one SQLite
// database: one writer connection, pooled readers, WAL. It enforces the state machines of
// runners, jobs and tasks, so that no caller can corrupt the fleet's accounting. It must never
// decide what the fleet should do, and never talk to anything but its database.
package store
