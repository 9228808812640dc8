package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller"
)

// demoReport is the demo's own, and what it comes to beside `podman run`.
type demoReport struct {
	demo.Report

	// Ratio is the median of task_to_container over the median of `podman run`, both of this run.
	Ratio float64 `json:"task_to_container_vs_podman_run"`
	// Commits to the database for each job, from its queueing to the last trace of its runner. Three are before the task.
	Commits float64 `json:"commits_per_job"`
	CPU     float64 `json:"cpu_ms_per_job"` // of this process: controller, agent and simulated GitHub, without the engine
}

// measureDemo does what `zoomies demo --jobs N --exit` does, in this process. Our starts and `podman run` take turns, so that
// both meet the same machine.
func measureDemo(ctx context.Context, o options) (r *demoReport, goals []goal, err error) {
	dir, err := os.MkdirTemp("", "zoomies-bench-demo-")
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fleet, err := demo.Start(ctx, demo.Options{
		NodeOptions: demo.NodeOptions{Dir: dir, Capacity: o.jobs, Settings: controller.DefaultSettings(), Logger: o.log},
		ImageFile:   o.image, MaxPool: o.jobs, // as many as jobs, so that none waits for another to end
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	st := fleet.Controller().Store
	commits, cpu := st.Commits(), cpuTime()
	got, err := demo.RunJobs(ctx, fleet, o.jobs, &demo.Lines{W: o.progress})
	if err != nil {
		return nil, nil, err
	}
	n := float64(o.jobs)
	r = &demoReport{
		Report: got, Ratio: ratio(got.Stages["task_to_container"].P50, got.PodmanRun.P50),
		Commits: ratio(float64(st.Commits()-commits), n), CPU: ratio(millis(cpuTime()-cpu), n),
	}
	if !got.OK() {
		return r, nil, fmt.Errorf("a job did not finish, or something was left behind: %+v", got)
	}
	return r, []goal{
		newGoal("demo: task_to_container.p50 / podman_run.p50", 1.0, r.Ratio),
		newGoal("demo: queued_to_task.p95, ms", 20, got.Stages["queued_to_task"].P95),
	}, nil
}
