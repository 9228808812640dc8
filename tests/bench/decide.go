package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/scheduler"
)

// decideRow is Decide over one snapshot.
type decideRow struct {
	Pools    int    `json:"pools"`
	Hosts    int    `json:"hosts"`
	Runners  int    `json:"runners"`
	Queued   int    `json:"queued"`
	Distinct bool   `json:"distinct_labels"` // every job asks for a label of its own, so that no two share an answer and no pool fits
	Creates  int    `json:"creates"`
	Wall     spread `json:"wall_ms"`
	// CPU is the mean of a decision, all processors and the collector included: the kernel counts too coarsely for single ones.
	CPU float64 `json:"cpu_ms_mean"`
	// Read is the reading of the jobs and runners from the database, which comes before a decision and is no part of it.
	Read    spread  `json:"read_ms"`
	ReadCPU float64 `json:"read_cpu_ms_mean"`
}

// minRuns is how often a decision is made however slow it is.
const minRuns = 11

// decideGoal is for the larger size, in milliseconds of wall time.
const decideGoal = 100

func measureDecide(ctx context.Context, o options) ([]decideRow, []goal, error) {
	rows := []decideRow{
		{Pools: 12, Hosts: 8, Queued: 1000},
		{Pools: 100, Hosts: 500, Queued: 10000},
		{Pools: 100, Hosts: 500, Queued: 10000, Distinct: true},
	}
	var goals []goal
	for i := range rows {
		row := &rows[i]
		if err := row.run(ctx, o.each); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(o.progress, "%d pools × %d hosts × %d queued (distinct labels: %v): %.1f ms, p95 %.1f, CPU %.1f ms, %d runs; reading takes %.1f ms, CPU %.1f ms\n",
			row.Pools, row.Hosts, row.Queued, row.Distinct, row.Wall.P50, row.Wall.P95, row.CPU, row.Wall.N, row.Read.P50, row.ReadCPU)
		if row.Queued == 10000 && !row.Distinct {
			goals = append(goals, newGoal("decide: 100 × 500 × 10000, median, ms", decideGoal, row.Wall.P50))
		}
	}
	return rows, goals, nil
}

func (r *decideRow) run(ctx context.Context, long time.Duration) error {
	s := rush(r.Pools, r.Hosts, r.Queued, r.Distinct)
	r.Runners = len(s.Runners)
	r.Creates = creates(scheduler.Decide(s)) // also warms up
	runtime.GC()
	var wall []time.Duration
	used := cpuTime()
	for end := time.Now().Add(long); time.Now().Before(end) || len(wall) < minRuns; {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		plan := scheduler.Decide(s)
		wall = append(wall, time.Since(began))
		if n := creates(plan); n != r.Creates {
			return fmt.Errorf("the same snapshot had %d creates and then %d", r.Creates, n)
		}
	}
	r.Wall, r.CPU = spreadOf(wall), ratio(millis(cpuTime()-used), float64(len(wall)))
	var err error
	r.Read, r.ReadCPU, err = reads(ctx, s, long/4)
	return err
}

func creates(p scheduler.Plan) (n int) {
	for _, a := range p.Actions {
		if a.Kind == scheduler.Create {
			n++
		}
	}
	return n
}
