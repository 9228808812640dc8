package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// settleTimeout is how long the fleet gets to put everything away after the last job.
const settleTimeout = 30 * time.Second

// times are what GitHub's own clock does not say of one job: when its task's row was written, and its container's first line.
type times struct{ task, container time.Time }

// Progress is told of every step of every job, and of every plain run.
type Progress interface {
	Job(n int, name, state, detail string)
	Plain(n int, took time.Duration)
	Done()
}

// RunJobs queues n jobs one after another, and after the container of each has printed its first line runs the same image with
// plain `podman run`, so that both meet the same machine. It returns when all have ended and everything is put away.
func RunJobs(ctx context.Context, f *Fleet, n int, p Progress) (Report, error) {
	p = &inOrder{Progress: p, at: map[int]int{}}
	w := newWatcher(f, p)
	defer w.close()
	var wg sync.WaitGroup
	results := make([]simgithub.Job, n)
	var plain []time.Duration
	var failed error
	for i := range n {
		name := jobName(i)
		id := f.GitHub.QueueJob(simgithub.JobSpec{
			Repository: Repository, Name: name, Workflow: "ci", Labels: []string{"self-hosted", PoolLabel}, Steps: steps(i),
		})
		p.Job(i, name, "queued", "")
		wg.Go(func() { results[i] = follow(ctx, f, id, i, name, p) })
		if err := w.firstLine(ctx, id); err != nil {
			break // the job's own follower says what became of it
		}
		took, err := plainRun(ctx, f, i)
		if err != nil {
			failed = fmt.Errorf("cannot compare with podman run: %w", err)
			break
		}
		plain = append(plain, took)
		p.Plain(i, took)
	}
	wg.Wait()
	p.Done()
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("the demo was interrupted: %w", err)
	}
	r := Report{Jobs: n, PodmanRun: spread(plain)}
	for _, j := range results {
		if j.Conclusion == "success" {
			r.Completed++
		} else {
			r.Failed++
		}
	}
	r.Stages = measure(w, results)
	return r, errors.Join(failed, f.settle(ctx, &r))
}

func jobName(i int) string { return fmt.Sprintf("build-%02d", i+1) }

// jobNumber is the inverse of jobName.
func jobNumber(name string) int {
	var n int
	if _, err := fmt.Sscanf(name, "build-%d", &n); err != nil {
		return 0
	}
	return n - 1
}

// steps are what a job runs: short, and of different lengths, so that several are under way at once.
func steps(i int) []simgithub.Step {
	return []simgithub.Step{
		{Name: "Check out", Run: "echo 'package main' > main.go && wc -c main.go"},
		{Name: "Build", Run: "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo built $i objects"},
		{Name: "Test", Run: fmt.Sprintf("sleep %d; echo all tests passed", 1+i%3)},
	}
}

// jobTimeout is how long one job of the demo may take from its queueing to its end.
const jobTimeout = 3 * time.Minute

func follow(ctx context.Context, f *Fleet, id int64, i int, name string, p Progress) simgithub.Job {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	j, err := f.GitHub.WaitJob(ctx, id, "in_progress")
	if err == nil {
		p.Job(i, name, "running", j.RunnerName)
		j, err = f.GitHub.WaitJob(ctx, id, "completed")
	}
	if err != nil {
		p.Job(i, name, "lost", err.Error())
		return f.GitHub.Job(id)
	}
	p.Job(i, name, j.Conclusion, j.CompletedAt.Sub(j.QueuedAt).Round(time.Millisecond).String())
	return j
}

// settle waits until nothing is left, or says what is.
func (f *Fleet) settle(ctx context.Context, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := f.CountLeft(ctx, r); errors.Is(err, context.DeadlineExceeded) {
			return nil // as below
		} else if err != nil {
			return err
		}
		if r.RunnersLeft+r.ContainersLeft+r.RegistrationsLeft == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // the report says what is left
		}
	}
}

// CountLeft counts runners that are not removed, containers, and registrations.
func (f *Fleet) CountLeft(ctx context.Context, r *Report) error {
	rows, err := f.Controller().Store.Runners(ctx, store.RunnerFilter{Live: true})
	if err != nil {
		return err
	}
	left, err := f.Agent().Backend().List(ctx)
	if err != nil {
		return err
	}
	r.RunnersLeft, r.ContainersLeft, r.RegistrationsLeft = len(rows), len(left), len(f.GitHub.Runners())
	return nil
}

// watcher notes when a runner's task was written and when its container printed its first line.
type watcher struct {
	f    *Fleet
	p    Progress
	sub  *events.Subscription
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	runners map[string]times // by runner name
	order   []string         // runner names in the order of their first lines
	changed chan struct{}
}

func newWatcher(f *Fleet, p Progress) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{f: f, p: p, sub: f.Controller().Events().Subscribe(4096), stop: stop, runners: map[string]times{}, changed: make(chan struct{})}
	w.wg.Go(func() {
		for {
			select {
			case e := <-w.sub.C:
				if e.Kind == events.RunnerChanged {
					w.look(ctx, e.ID)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return w
}

func (w *watcher) close() {
	w.stop()
	w.sub.Close()
	w.wg.Wait()
}

// look reads a runner that has just been started.
func (w *watcher) look(ctx context.Context, id string) {
	k := w.f.Controller()
	r, err := k.Store.Runner(ctx, id)
	if err != nil || r.WorkloadID == "" {
		return
	}
	w.mu.Lock()
	_, known := w.runners[r.Name]
	if !known {
		w.runners[r.Name] = times{}
	}
	w.mu.Unlock()
	if known {
		return
	}
	if j, err := k.Store.Job(ctx, r.DemandJobID); err == nil {
		w.p.Job(jobNumber(j.Name), j.Name, "started", r.Name)
	}
	w.wg.Go(func() {
		at, err := firstLine(ctx, w.f.Agent().Backend(), r.WorkloadID)
		if err != nil {
			w.f.o.Logger.Warn("cannot read a container's first line", "runner", r.Name, "err", err)
		}
		t := times{container: at}
		ts, _ := k.Store.Tasks(ctx, r.ID) // without them the stage is not counted
		for _, task := range ts {
			if task.Kind == string(protocol.TaskCreate) {
				t.task = task.CreatedAt
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runners[r.Name] = t
		w.order = append(w.order, r.Name)
		close(w.changed)
		w.changed = make(chan struct{})
	})
}

// firstLine waits until as many containers have printed their first line as jobs were queued up to id, or the job has ended.
func (w *watcher) firstLine(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	want := 0
	for _, j := range w.f.GitHub.Jobs() {
		if j.ID <= id {
			want++
		}
	}
	for {
		w.mu.Lock()
		have, changed := len(w.order), w.changed
		w.mu.Unlock()
		if have >= want {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// measure makes the stages out of what each source wrote down.
func measure(w *watcher, jobs []simgithub.Job) map[string]Spread {
	ds := map[string][]time.Duration{}
	add := func(stage string, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() {
			ds[stage] = append(ds[stage], to.Sub(from))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range jobs {
		t := w.runners[j.RunnerName]
		add("queued_to_task", j.QueuedAt, t.task)
		add("task_to_container", t.task, t.container)
		add("container_to_registered", t.container, j.RunnerOnlineAt)
		add("queued_to_running", j.QueuedAt, j.StartedAt)
	}
	out := map[string]Spread{}
	for _, s := range stages {
		out[s] = spread(ds[s])
	}
	return out
}
