package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller"
)

// demoReport is the demo's own, and what it comes to beside `podman run`.
type demoReport struct {
	demo.Report
	Capacity int `json:"capacity"`
	// Ratio is the median of task_to_container over the median of `podman run`, both of this run.
	Ratio float64 `json:"task_to_container_vs_podman_run"`
}

// measureDemo does what `zoomies demo --jobs N --exit` does, in this process. Our starts and `podman run` take turns, so that
// both meet the same machine.
func measureDemo(ctx context.Context, o options) (r *demoReport, goals []goal, err error) {
	dir, err := os.MkdirTemp("", "zoomies-bench-demo-")
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	capacity := max(4, 2*runtime.NumCPU()) // the demo's own default
	fleet, err := demo.Start(ctx, demo.Options{
		NodeOptions: demo.NodeOptions{Dir: dir, Capacity: capacity, Settings: controller.DefaultSettings(), Logger: o.log},
		ImageFile:   o.image, MaxPool: capacity,
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	got, err := demo.RunJobs(ctx, fleet, o.jobs, &demo.Lines{W: o.progress})
	if err != nil {
		return nil, nil, err
	}
	r = &demoReport{Report: got, Capacity: capacity, Ratio: ratio(got.Stages["task_to_container"].P50, got.PodmanRun.P50)}
	if !got.OK() {
		return r, nil, fmt.Errorf("a job did not finish, or something was left behind: %+v", got)
	}
	return r, []goal{
		newGoal("demo: task_to_container.p50 / podman_run.p50", 1.0, r.Ratio),
		newGoal("demo: queued_to_task.p95, ms", 20, got.Stages["queued_to_task"].P95),
	}, nil
}
