// Package store is the only place where SQL is written. It keeps the fleet in one SQLite
// database: one writer connection, pooled readers, WAL. It enforces the state machines of
// runners, jobs and tasks, so that no caller can corrupt the fleet's accounting. It must never
// decide what the fleet should do, and never talk to anything but its database.
//
// A write returns when it is durable. Writes that arrive while another commits share the next
// commit, so that a burst of webhooks costs a few fsyncs and not one each.
package store
