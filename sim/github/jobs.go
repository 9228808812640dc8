package github

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// The states of a job, as GitHub names them.
const (
	StatusQueued     = "queued"
	StatusWaiting    = "waiting"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
)

// The conclusions that this GitHub gives.
const (
	ConclusionSuccess   = "success"
	ConclusionFailure   = "failure"
	ConclusionCancelled = "cancelled"
)

// forceCancelAfter is when GitHub stops waiting for a runner to stop a cancelled job.
const forceCancelAfter = 5 * time.Minute

// Step is one shell step of a job.
type Step struct {
	Name string `json:"name"`
	Run  string `json:"run"`
}

// JobSpec describes a job to queue.
type JobSpec struct {
	Repository string // "owner/name"
	Name       string // empty is "build"
	Workflow   string // empty is "CI"
	Labels     []string
	Steps      []Step
	Waiting    bool  // starts behind a deployment gate: ReleaseJob opens it
	RunID      int64 // adds the job to this run; 0 starts a run
}

// Job is a job as it stands, with exact times (the API and webhooks carry whole seconds).
type Job struct {
	ID, RunID, RunAttempt int64
	Repository            string
	Name, Workflow        string
	Labels                []string
	Status, Conclusion    string
	RunnerID              int64
	RunnerName            string
	CreatedAt             time.Time
	QueuedAt              time.Time // last time it became queued
	AssignedAt            time.Time // a runner was chosen
	RunnerOnlineAt        time.Time // first session of the runner that was chosen
	StartedAt             time.Time // the runner took it
	CompletedAt           time.Time
	Log                   string
}

type run struct {
	id         int64
	repo       *repository
	workflow   string
	workflowID int64
	number     int
	attempt    int64
	sha        string
	created    time.Time
	started    time.Time // of this attempt
	updated    time.Time
	jobs       []*job // of every attempt
}

type step struct {
	Step
	status, conclusion string
	started, completed time.Time
}

type job struct {
	id                 int64
	run                *run
	attempt            int64
	name               string
	labels             []string
	steps              []*step
	status, conclusion string
	runner             *runner // who has it now
	runnerID           int64   // who had it, kept after the end
	runnerName         string
	groupID            int64
	cancelled          time.Time // when a cancel of the running job was asked for
	cancelTold         bool
	listed             bool // in world.queue
	log                bytes.Buffer

	created, queued, assigned, runnerOnline, started, completed time.Time
}

// QueueJob makes a job in a new run and sends its webhook. A repository that no installation has
// still has jobs: they reach no webhook, but an organisation's runners take them.
func (s *Server) QueueJob(spec JobSpec) int64 {
	if spec.Name == "" {
		spec.Name = "build"
	}
	if spec.Workflow == "" {
		spec.Workflow = "CI"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.world.runs[spec.RunID]
	if r == nil {
		r = s.newRun(s.repository(spec.Repository), spec.Workflow)
	}
	j := s.newJob(r, spec.Name, spec.Labels, spec.Steps)
	if spec.Waiting {
		s.moveJob(j, StatusWaiting, "")
	} else {
		s.moveJob(j, StatusQueued, "")
	}
	s.assign()
	return j.id
}

func (s *Server) newRun(repo *repository, workflow string) *run {
	now := s.now()
	repo.runs++
	r := &run{
		id: s.newID(), repo: repo, workflow: workflow, workflowID: s.workflow(repo, workflow), number: repo.runs,
		attempt: 1, sha: fmt.Sprintf("%016x%016x%08x", s.rng.Uint64(), s.rng.Uint64(), s.rng.Uint32()),
		created: now, started: now, updated: now,
	}
	s.world.runs[r.id] = r
	return r
}

func (s *Server) newJob(r *run, name string, labels []string, steps []Step) *job {
	j := &job{
		id: s.newID(), run: r, attempt: r.attempt, name: name,
		labels: append([]string{}, labels...), created: s.now(),
	}
	for i, st := range steps {
		if st.Name == "" {
			st.Name = fmt.Sprintf("Run step %d", i+1)
		}
		j.steps = append(j.steps, &step{Step: st, status: StatusQueued})
	}
	r.jobs = append(r.jobs, j)
	s.world.jobs[j.id] = j
	s.world.jobOrder = append(s.world.jobOrder, j.id)
	return j
}

// moveJob is the one place where a job's state changes: it stamps the time, sends the webhook and wakes those who wait. Called under mu.
func (s *Server) moveJob(j *job, status, conclusion string) {
	now := s.now()
	switch status {
	case StatusQueued:
		j.queued = now
		if !j.listed {
			j.listed = true
			s.world.queue = append(s.world.queue, j)
		}
	case StatusInProgress:
		j.started = now
	case StatusCompleted:
		j.completed = now
		for _, st := range j.steps {
			if st.status != StatusCompleted {
				st.conclusion = ConclusionCancelled
				if conclusion != ConclusionCancelled {
					st.conclusion = "skipped"
				}
				st.status, st.started, st.completed = StatusCompleted, now, now
			}
		}
	}
	j.status, j.conclusion = status, conclusion
	j.run.updated = now
	s.log.Debug("job", "job", j.id, "name", j.name, "status", status, "conclusion", conclusion, "runner", j.runnerName)
	s.deliverJob(j, status)
	s.touch()
}

// CancelJob cancels a job: a queued one is completed at once, a running one when its runner has stopped it.
func (s *Server) CancelJob(jobID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.world.jobs[jobID]; j != nil {
		s.cancelJob(j)
	}
}

func (s *Server) cancelJob(j *job) {
	switch {
	case j.status == StatusCompleted:
	case j.status == StatusInProgress:
		if j.cancelled.IsZero() {
			j.cancelled = s.now()
			s.touch()
		}
	default: // waiting, queued, or on its way to a runner
		if j.runner != nil {
			s.freeRunner(j.runner)
		}
		s.moveJob(j, StatusCompleted, ConclusionCancelled)
		s.assign()
	}
}

// ReleaseJob opens a waiting job's gate: it becomes queued.
func (s *Server) ReleaseJob(jobID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.world.jobs[jobID]; j != nil && j.status == StatusWaiting {
		s.moveJob(j, StatusQueued, "")
		s.assign()
	}
}

// HoldJob puts a queued job behind a gate: queued, then waiting, then (ReleaseJob) queued again is legal at GitHub.
func (s *Server) HoldJob(jobID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.world.jobs[jobID]; j != nil && j.status == StatusQueued && j.runner == nil {
		s.moveJob(j, StatusWaiting, "")
	}
}

// Job is one job; the zero Job if there is none of that id.
func (s *Server) Job(jobID int64) Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.world.jobs[jobID]; j != nil {
		return j.public()
	}
	return Job{}
}

// Jobs is every job in the order they were made.
func (s *Server) Jobs() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Job, 0, len(s.world.jobOrder))
	for _, id := range s.world.jobOrder {
		out = append(out, s.world.jobs[id].public())
	}
	return out
}

// WaitJob waits until a job has the status. A job that has completed meanwhile was in progress if a runner took it.
func (s *Server) WaitJob(ctx context.Context, jobID int64, status string) (Job, error) {
	for {
		s.mu.Lock()
		j := s.world.jobs[jobID]
		var got Job
		if j != nil {
			got = j.public()
		}
		changed := s.changed
		s.mu.Unlock()
		switch {
		case j == nil:
			return Job{}, fmt.Errorf("cannot wait for job %d: there is no such job", jobID)
		case got.Status == status, status == StatusInProgress && !got.StartedAt.IsZero():
			return got, nil
		case got.Status == StatusCompleted:
			return got, fmt.Errorf("cannot wait for job %d to be %s: it completed as %s", jobID, status, got.Conclusion)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("cannot wait for job %d to be %s, it is %s: %w", jobID, status, got.Status, ctx.Err())
		case <-s.ctx.Done():
			return got, fmt.Errorf("cannot wait for job %d: the server is closed", jobID)
		}
	}
}

func (j *job) public() Job {
	return Job{
		ID: j.id, RunID: j.run.id, RunAttempt: j.attempt, Repository: j.run.repo.fullName, Name: j.name, Workflow: j.run.workflow,
		Labels: slices.Clone(j.labels), Status: j.status, Conclusion: j.conclusion, RunnerID: j.runnerID, RunnerName: j.runnerName,
		CreatedAt: j.created, QueuedAt: j.queued, AssignedAt: j.assigned, RunnerOnlineAt: j.runnerOnline, StartedAt: j.started, CompletedAt: j.completed, Log: j.log.String(),
	}
}

// state sums a run's jobs of the latest attempt up. A run that has begun stays in progress while some of its jobs are queued.
func (r *run) state() (status, conclusion string) {
	var n = map[string]int{}
	conclusion = ConclusionSuccess
	latest := r.latest()
	for _, j := range latest {
		n[j.status]++
		switch {
		case j.conclusion == ConclusionFailure:
			conclusion = ConclusionFailure
		case j.conclusion == ConclusionCancelled && conclusion != ConclusionFailure:
			conclusion = ConclusionCancelled
		}
	}
	switch {
	case n[StatusCompleted] == len(latest):
		return StatusCompleted, conclusion
	case n[StatusInProgress] > 0, n[StatusCompleted] > 0 && n[StatusQueued] > 0:
		return StatusInProgress, ""
	case n[StatusQueued] > 0:
		return StatusQueued, ""
	}
	return StatusWaiting, ""
}

func (r *run) latest() []*job {
	var out []*job
	for _, j := range r.jobs {
		if j.attempt == r.attempt {
			out = append(out, j)
		}
	}
	return out
}
