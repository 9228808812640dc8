package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// ingestReport sets deliveries taken in, each answered when it is on the disk, beside what the disk can promise.
type ingestReport struct {
	BodyBytes int         `json:"body_bytes"` // of a delivery's body, about GitHub's own size
	Fsync     spread      `json:"fsync_ms"`   // one 4 KiB append and its fsync, over the whole run
	Rows      []ingestRow `json:"rows"`
}

// ingestRow is one way in with so many senders at once.
type ingestRow struct {
	// Through is "store" for the database alone, "handler" for signed requests over loopback to the controller's HTTP handler, and
	// "controller" for the same while its loops run and decide.
	Through    string  `json:"through"`
	Senders    int     `json:"senders"`
	Deliveries int64   `json:"deliveries"`
	PerSecond  float64 `json:"per_second"`
	Latency    spread  `json:"latency_ms"` // of one delivery, as its sender sees it
	Commits    int64   `json:"commits"`
	PerCommit  float64 `json:"deliveries_per_commit"`
	// FsyncPerSecond is a file appended by 4 KiB and synced in a loop, just before and just after, on the same file system.
	FsyncPerSecond float64 `json:"fsync_per_second"`
	PerFsync       float64 `json:"deliveries_per_fsync"` // PerSecond over FsyncPerSecond
	// CPU is of this process, so of the senders too, which sign.
	CPU float64 `json:"cpu_us_per_delivery"`
}

var (
	ways    = []string{"store", "handler", "controller"}
	senders = []int{1, 8, 64}
)

// maxDeliveries bounds a row, and with it the database.
const maxDeliveries = 60_000

func measureIngest(ctx context.Context, o options) (r *ingestReport, err error) {
	r = &ingestReport{}
	tmpl, err := newTemplate(ctx)
	if err != nil {
		return nil, err
	}
	r.BodyBytes = tmpl.size()
	var syncs []time.Duration
	before, err := fsyncs(ctx, o.each/4)
	if err != nil {
		return nil, err
	}
	syncs = append(syncs, before...)
	for _, way := range ways {
		for _, n := range senders {
			row := ingestRow{Through: way, Senders: n}
			if err := row.run(ctx, o, tmpl); err != nil {
				return nil, err
			}
			after, err := fsyncs(ctx, o.each/4)
			if err != nil {
				return nil, err
			}
			both := slices.Concat(before, after)
			row.FsyncPerSecond = rate(int64(len(both)), total(both))
			row.PerFsync = ratio(row.PerSecond, row.FsyncPerSecond)
			syncs, before = append(syncs, after...), after
			r.Rows = append(r.Rows, row)
			fmt.Fprintf(o.progress, "%-10s %2d senders: %8.0f deliveries/s, %5.1f in a commit, %6.0f fsync/s, p50 %.2f ms, p95 %.2f ms, CPU %.0f µs each\n",
				way, n, row.PerSecond, row.PerCommit, row.FsyncPerSecond, row.Latency.P50, row.Latency.P95, row.CPU)
		}
	}
	r.Fsync = spreadOf(syncs)
	return r, nil
}

// run measures one row over a fresh database.
func (r *ingestRow) run(ctx context.Context, o options, tmpl template) (err error) {
	dir, err := os.MkdirTemp("", "zoomies-bench-ingest-")
	if err != nil {
		return fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := newTarget(ctx, dir, r.Through, tmpl)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.send(ctx, 0, 0); err != nil { // opens what is opened once
		return err
	}
	commits, cpu := t.store.Commits(), cpuTime()
	took, latencies, err := flood(ctx, r.Senders, o.each, maxDeliveries, t.send)
	if err != nil {
		return err
	}
	r.Deliveries, r.Commits = int64(len(latencies)), t.store.Commits()-commits
	r.PerSecond = rate(r.Deliveries, took)
	r.Latency = spreadOf(latencies)
	r.PerCommit = ratio(float64(r.Deliveries), float64(r.Commits))
	r.CPU = round(ratio(float64((cpuTime()-cpu).Microseconds()), float64(r.Deliveries)), 0)
	return nil
}

func total(ds []time.Duration) (sum time.Duration) {
	for _, d := range ds {
		sum += d
	}
	return sum
}
