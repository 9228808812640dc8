package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// gates hold jobs whose step is "wait", by GitHub ID.
var gates sync.Map

// jobGate is closed when the test finishes the job.
func (r *rig) jobGate(id int64) chan struct{} {
	type key struct {
		r  *rig
		id int64
	}
	g, _ := gates.LoadOrStore(key{r, id}, make(chan struct{}))
	return g.(chan struct{})
}

// finishJob lets a job whose step is "wait" succeed.
func (r *rig) finishJob(id int64) { close(r.jobGate(id)) }

// job queues a job of acme/widgets for the label "zoomies" whose step is run.
func (r *rig) job(run string) int64 {
	return r.gh.QueueJob(simgithub.JobSpec{
		Repository: "acme/widgets", Labels: []string{"self-hosted", "zoomies"}, Steps: []simgithub.Step{{Run: run}},
	})
}

// completed waits until GitHub says that a job has completed so.
func (r *rig) completed(id int64, conclusion string) simgithub.Job {
	r.t.Helper()
	return r.waitJob(id, simgithub.StatusCompleted, conclusion)
}

func (r *rig) waitJob(id int64, status, conclusion string) simgithub.Job {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	j, err := r.gh.WaitJob(ctx, id, status)
	if err != nil || conclusion != "" && j.Conclusion != conclusion {
		r.t.Fatalf("job %d: want %s %s, it is %+v: %v", id, status, conclusion, j, err)
	}
	return j
}

// until waits until ok; it looks at every event, and now and then in case there is none.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		changed := r.gh.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatalf("this did not happen in %s: %s\n%s", patience, what, r.state())
		}
	}
}

// state is what a failing test says of the fleet.
func (r *rig) state() string {
	var b strings.Builder
	for _, x := range r.runners() {
		fmt.Fprintf(&b, "runner %s pool %s %s job=%s demand=%s github=%d deregistered=%t cleaned=%t: %s\n", x.Name, x.PoolID, x.State, x.JobID, x.DemandJobID, x.GitHubID, x.Deregistered, x.Cleaned, x.Message)
	}
	for _, x := range r.gh.Runners() {
		fmt.Fprintf(&b, "registration %d %s online=%t busy=%t\n", x.ID, x.Name, x.Online, x.Busy)
	}
	for _, x := range r.gh.Jobs() {
		fmt.Fprintf(&b, "job %d %v at GitHub %s %s on %s\n", x.ID, x.Labels, x.Status, x.Conclusion, x.RunnerName)
	}
	jobs, err := r.st.Jobs(r.t.Context(), store.JobFilter{})
	for _, x := range jobs {
		fmt.Fprintf(&b, "job %d %s here %s on %s\n", x.GitHubID, x.ID, x.State, x.RunnerName)
	}
	fmt.Fprintln(&b, err)
	return b.String()
}

// runners are all rows, ended ones too.
func (r *rig) runners() []store.Runner {
	r.t.Helper()
	rs, err := r.st.Runners(r.t.Context(), store.RunnerFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return rs
}

// live are the runners that are neither removed nor failed.
func (r *rig) live() []store.Runner {
	r.t.Helper()
	rs, err := r.st.Runners(r.t.Context(), store.RunnerFilter{Live: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return rs
}

// runner waits until the only live runner is in one of these states.
func (r *rig) runner(states ...store.RunnerState) store.Runner {
	r.t.Helper()
	var got store.Runner
	r.until("one live runner is in a state of "+string(states[0]), func() bool {
		live := r.live()
		if len(live) != 1 {
			return false
		}
		got = live[0]
		return slices.Contains(states, got.State)
	})
	return got
}

// idle waits until the only live runner has registered, and lets its host say so.
func (r *rig) idle() store.Runner {
	r.t.Helper()
	if got := r.runner(store.RunnerRegistering, store.RunnerIdle); got.State == store.RunnerIdle {
		return got
	}
	r.until("the runner is online", func() bool { rs := r.gh.Runners(); return len(rs) == 1 && rs[0].Online })
	r.until("the host has said that it started", func() bool {
		for _, h := range r.hosts {
			h.look()
		}
		return r.runner(store.RunnerRegistering, store.RunnerIdle).State == store.RunnerIdle
	})
	return r.runner(store.RunnerIdle)
}

// jobRow is our row of a job of GitHub, if there is one.
func (r *rig) jobRow(in string, id int64) store.Job {
	r.t.Helper()
	j, err := r.st.JobByGitHubID(r.t.Context(), in, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// nothingLeft waits until no live runner, no workload and no registration of ours is left.
func (r *rig) nothingLeft() {
	r.t.Helper()
	r.until("everything is put away", func() bool {
		n := len(r.live()) + len(r.gh.Runners())
		for _, h := range r.hosts {
			n += h.engine.Count()
		}
		dirty, err := r.st.Runners(r.t.Context(), store.RunnerFilter{NeedsCleanup: true})
		if err != nil {
			r.t.Fatal(err)
		}
		return n+len(dirty) == 0
	})
}

// settle waits until n runners have ended, lets the loops come to rest, and makes one more pass to see whether it finds anything to do.
func (r *rig) settle(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d runners have ended", n), func() bool {
		ended := 0
		for _, x := range r.runners() {
			if !x.State.Live() {
				ended++
			}
		}
		return ended >= n && len(r.c().exits.open()) == 0
	})
	for range 3 {
		if _, err := r.c().pass(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// hostRow is our row of a host.
func (r *rig) hostRow(name string) store.Host {
	r.t.Helper()
	hs, err := r.st.Hosts(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range hs {
		if h.Name == name {
			return h
		}
	}
	return store.Host{Name: name, Backends: []store.HostBackend{{}}}
}
