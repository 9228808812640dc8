package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scaleReport is what many agents cost a controller.
type scaleReport struct {
	Rows []scaleRow `json:"rows"`
}

// scaleRow is one size of fleet: agents of another process, each with a long poll, a heartbeat and a report open or sent at the pace of
// real ones, over real connections to a controller as it is shipped.
type scaleRow struct {
	Agents    int     `json:"agents"`
	TLS       bool    `json:"tls"`
	Seconds   float64 `json:"seconds"`
	Load      string  `json:"load_before"`
	Heartbeat spread  `json:"heartbeat_ms"` // as the agent sees it
	Report    spread  `json:"report_ms"`
	// Task is from the time in a task's row, taken as its commit begins, to its agent having read the answer to its poll.
	Task spread `json:"task_to_agent_ms"`
	// Requests are all that the agents made, a second.
	Requests float64 `json:"requests_per_second"`
	Failed   int     `json:"failed"`
	// Late is by how much this machine was late to wake a process that wanted to run every 5 ms: what a request meets that waits for
	// nothing but a processor, once.
	Late      spread  `json:"late_ms"`
	Fsync     spread  `json:"fsync_ms"`       // of the same file system, just before and just after: each heartbeat and each task waits for one
	CPU       float64 `json:"cpu_share"`      // of one processor, which the controller used
	RSS       float64 `json:"rss_mb"`         // of the controller, at its highest
	Heap      float64 `json:"heap_mb"`        // live objects after a collection
	Stacks    float64 `json:"stacks_mb"`      // of its goroutines
	Goroutine int     `json:"goroutines"`     // of the controller
	Commits   float64 `json:"commits_second"` // of its database
}

// fleetSize is one that is measured.
type fleetSize struct {
	agents int
	tls    bool
}

// defaultSizes are those that are measured unless others are asked for.
const defaultSizes = "250,500,1000,2000,2000tls"

// goalSize is the fleet that the goals are for.
const goalSize = 2000

func parseSizes(text string) (sizes []fleetSize, err error) {
	for word := range strings.SplitSeq(text, ",") {
		number, tls := strings.CutSuffix(word, "tls")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%.32q is no size of a fleet: write 2000, or 2000tls for one over TLS", word)
		}
		sizes = append(sizes, fleetSize{n, tls})
	}
	return sizes, nil
}

// Goals for goalSize agents.
const (
	goalHeartbeat = 100 // ms, 99th percentile
	goalTask      = 20  // ms, 95th
	goalRSS       = 300 // MB
)

func measureScale(ctx context.Context, o options) (*scaleReport, []goal, error) {
	r := &scaleReport{}
	var goals []goal
	for _, size := range o.fleets {
		row, err := measureFleet(ctx, o, size.agents, size.tls)
		if err != nil {
			return r, nil, fmt.Errorf("with %d agents: %w", size.agents, err)
		}
		r.Rows = append(r.Rows, row)
		how := "plain"
		if size.tls {
			how = "TLS"
		}
		fmt.Fprintf(o.progress, "%5d agents, %5s: heartbeat p50 %.1f p99 %.1f ms, task p50 %.1f p95 %.1f ms (%d), %.0f requests/s, %.0f commits/s, CPU %.2f, RSS %.0f MB, heap %.0f MB, stacks %.0f MB, fsync p99 %.1f ms, late p95 %.1f p99 %.1f ms, failed %d, load %s\n",
			size.agents, how, row.Heartbeat.P50, row.Heartbeat.P99, row.Task.P50, row.Task.P95, row.Task.N, row.Requests, row.Commits, row.CPU, row.RSS, row.Heap, row.Stacks, row.Fsync.P99, row.Late.P95, row.Late.P99, row.Failed, row.Load)
		if size.agents != goalSize {
			continue
		}
		name := func(what string) string { return fmt.Sprintf("scale: %s with %d agents, %s", what, size.agents, how) }
		goals = append(goals, newGoal(name("heartbeat p99 (ms)"), goalHeartbeat, row.Heartbeat.P99),
			newGoal(name("task to agent p95 (ms)"), goalTask, row.Task.P95), newGoal(name("controller's memory (MB)"), goalRSS, row.RSS))
	}
	return r, goals, nil
}

func measureFleet(ctx context.Context, o options, agents int, tls bool) (row scaleRow, err error) {
	row = scaleRow{Agents: agents, TLS: tls}
	if row.Load, err = loadNow(); err != nil {
		return row, err
	}
	dir, err := os.MkdirTemp("", "zoomies-bench-scale-")
	if err != nil {
		return row, fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	child, err := startFleetController(ctx, dir, agents, tls, o.profiles)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, child.close()) }()
	f, err := newFleet(child)
	if err != nil {
		return row, err
	}
	defer f.close()
	f.start(ctx)
	if err := f.settle(ctx); err != nil {
		return row, err
	}
	syncs, err := fsyncs(ctx, o.each/3)
	if err != nil {
		return row, err
	}
	before, err := child.figures(ctx, false)
	if err != nil {
		return row, err
	}
	f.measuring.Store(true)
	late, ticked := lateness(ctx)
	began := time.Now()
	probes, err := f.probe(ctx, o.scale)
	if err != nil {
		return row, err
	}
	f.measuring.Store(false)
	ticked()
	took := time.Since(began)
	after, err := child.figures(ctx, true)
	if err != nil {
		return row, err
	}
	later, err := fsyncs(ctx, o.each/3)
	if err != nil {
		return row, err
	}
	row.Fsync, row.Late = spreadOf(slices.Concat(syncs, later)), spreadOf(late.all())
	row.Seconds = round(took.Seconds(), 1)
	row.Heartbeat, row.Report, row.Task = spreadOf(f.heartbeats.all()), spreadOf(f.reports.all()), spreadOf(f.arrived.all())
	row.Requests, row.Failed = rate(f.requests.Load(), took), int(f.failed.Load())
	row.CPU = round(ratio((after.CPU-before.CPU).Seconds(), took.Seconds()), 2)
	row.Commits = rate(after.Commits-before.Commits, took)
	row.RSS, row.Heap, row.Stacks, row.Goroutine = round(after.RSS, 1), round(after.Heap, 1), round(after.Stacks, 1), after.Goroutines
	if f.arrived.len() < probes*9/10 {
		return row, fmt.Errorf("only %d of %d tasks reached their agents", f.arrived.len(), probes)
	}
	return row, f.firstFailure()
}

// lateness notes how late this process wakes, for each 5 ms until stop is called.
func lateness(ctx context.Context) (late *samples, stop func()) {
	const every = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	late = &samples{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for due := time.Now().Add(every); pauseFor(ctx, time.Until(due)); due = due.Add(every) {
			late.add(time.Since(due)) // those that were slept through are late, too
		}
	}()
	return late, func() { cancel(); <-done }
}

// fleetFigures are what the controller says of itself.
type fleetFigures struct {
	CPU               time.Duration
	Commits           int64
	RSS, Heap, Stacks float64 // MB
	Goroutines        int
}

// fleetHello is the first line of the controller's process.
type fleetHello struct {
	Agents  string      `json:"agents"`  // base URL
	Control string      `json:"control"` // base URL of what only this benchmark asks
	CA      string      `json:"ca"`      // PEM
	Hosts   []fleetHost `json:"hosts"`
}

type fleetHost struct {
	ID     string `json:"id"`
	Token  string `json:"token"`
	Runner string `json:"runner"`
}

func (h fleetHello) encode() ([]byte, error) { return json.Marshal(h) }
