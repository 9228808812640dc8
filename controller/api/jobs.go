package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Whose fault it is that a job failed.
const (
	faultFleet    = "fleet"
	faultWorkflow = "workflow"
)

// Job is a workflow job as the API shows it.
type Job struct {
	ID             string     `json:"id" doc:"job_…"`
	InstallationID string     `json:"installation_id"`
	GitHubID       int64      `json:"github_id"`
	RunID          int64      `json:"run_id"`
	RunAttempt     int64      `json:"run_attempt"`
	Repository     string     `json:"repository" doc:"owner/name"`
	Workflow       string     `json:"workflow"`
	Name           string     `json:"name"`
	Labels         []string   `json:"labels" nullable:"false"`
	State          string     `json:"state" enum:"waiting,queued,in_progress,completed" doc:"A waiting job is held back by GitHub, as for a deployment gate"`
	Conclusion     string     `json:"conclusion" doc:"GitHub's word for how it ended; empty until then"`
	Fault          string     `json:"fault" enum:",fleet,workflow" doc:"Whose fault it is that it failed; empty when it did not"`
	FaultReason    string     `json:"fault_reason" doc:"What the fleet did to it; empty when the fault is not the fleet's"`
	RunnerID       string     `json:"runner_id" doc:"The runner that runs or ran it, if it is ours"`
	RunnerName     string     `json:"runner_name" doc:"GitHub's word for it"`
	HTMLURL        string     `json:"html_url" doc:"Its page at GitHub"`
	QueuedAt       time.Time  `json:"queued_at"`
	SeenAt         time.Time  `json:"seen_at" doc:"When the fleet first heard of it"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	CompletedAt    *time.Time `json:"completed_at,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Job) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "started_at", "completed_at")
}

func viewJob(j store.Job) Job {
	fault, why := faultOf(j)
	return Job{
		ID: j.ID, InstallationID: j.InstallationID, GitHubID: j.GitHubID, RunID: j.RunID, RunAttempt: j.RunAttempt, Repository: j.Repository,
		Workflow: j.Workflow, Name: j.Name, Labels: orEmpty(j.Labels), State: string(j.State), Conclusion: j.Conclusion, Fault: fault, FaultReason: why,
		RunnerID: j.RunnerID, RunnerName: j.RunnerName, HTMLURL: j.HTMLURL, QueuedAt: j.QueuedAt, SeenAt: j.SeenAt,
		StartedAt: optional(j.StartedAt), CompletedAt: optional(j.CompletedAt),
	}
}

// faultOf says whose fault a failure is. What the fleet did to a job that went well all the same is nobody's.
func faultOf(j store.Job) (fault, why string) {
	switch {
	case slices.Contains([]string{"success", "skipped", "neutral"}, j.Conclusion):
		return "", ""
	case j.FleetFault != "":
		return faultFleet, j.FleetFault
	case j.Conclusion == "failure" || j.Conclusion == "timed_out":
		return faultWorkflow, ""
	}
	return "", ""
}

// JobTimeline says when a job did what, and on what.
type JobTimeline struct {
	JobID    string         `json:"job_id"`
	State    string         `json:"state"`
	RunnerID string         `json:"runner_id" doc:"The runner that has it, or while it waits the one that was made for it, which another job may get; empty for none"`
	Runner   string         `json:"runner" doc:"Its name"`
	PoolID   string         `json:"pool_id"`
	HostID   string         `json:"host_id"`
	WaitedMS *int64         `json:"waited_ms,omitempty" doc:"Milliseconds from its queueing to its start"`
	RanMS    *int64         `json:"ran_ms,omitempty" doc:"Milliseconds from its start to its end"`
	Steps    []TimelineStep `json:"steps" nullable:"false" doc:"In their order. What its runner did before the job was queued is among them"`
}

type (
	// JobPath names one in a path; huma looks only into exported types.
	JobPath struct {
		ID string `path:"id" maxLength:"64" doc:"The job's ID"`
	}
	jobOutput         struct{ Body Job }
	jobsOutput        struct{ Body Page[Job] }
	jobTimelineOutput struct{ Body JobTimeline }
	listJobs          struct {
		PageParams
		State          []string `query:"state" enum:"waiting,queued,in_progress,completed" doc:"Only jobs in one of these states, with commas between them"`
		InstallationID string   `query:"installation_id" maxLength:"64" doc:"Only jobs of this installation"`
		Repository     string   `query:"repository" maxLength:"200" doc:"Only jobs of this repository: owner/name"`
		PoolID         string   `query:"pool_id" maxLength:"64" doc:"Only jobs that run or ran on this pool's runners"`
		Conclusion     string   `query:"conclusion" maxLength:"32" doc:"Only jobs that ended so"`
	}
)

func addJobs(s *Server) {
	register(s, "list-jobs", s.listJobs)
	register(s, "get-job", s.getJob)
	register(s, "explain-job", s.explainJob)
	register(s, "get-job-timeline", s.jobTimeline)
	register(s, "rerun-job", s.rerunJob)
	register(s, "cancel-job", s.cancelJob)
}

func (s *Server) listJobs(ctx context.Context, in *listJobs) (*jobsOutput, error) {
	at, err := in.after()
	if err != nil {
		return nil, err
	}
	rows, err := s.store.JobPage(ctx, store.JobPage{
		States: states[store.JobState](in.State), Installation: in.InstallationID, Repository: in.Repository, Pool: in.PoolID, Conclusion: in.Conclusion,
		Within: within(ctx), After: at, Limit: in.Limit + 1,
	})
	return &jobsOutput{pageOf(rows, in.Limit, func(j store.Job) store.After { return store.After{At: j.SeenAt, ID: j.ID} }, viewJob)}, err
}

func (s *Server) getJob(ctx context.Context, in *JobPath) (*jobOutput, error) {
	j, err := s.store.Job(ctx, in.ID)
	return &jobOutput{viewJob(j)}, err
}

func (s *Server) jobTimeline(ctx context.Context, in *JobPath) (*jobTimelineOutput, error) {
	j, err := s.store.Job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	t := JobTimeline{JobID: j.ID, State: string(j.State), RunnerID: j.RunnerID, Runner: j.RunnerName}
	steps := []TimelineStep{
		{What: "queued", At: j.QueuedAt}, {What: "seen", At: j.SeenAt},
	}
	r, err := s.runnerOf(ctx, j)
	if err != nil {
		return nil, err
	}
	if r.ID != "" {
		t.RunnerID, t.Runner, t.PoolID, t.HostID = r.ID, r.Name, r.PoolID, r.HostID
		steps = append(steps, TimelineStep{What: "runner_created", At: r.CreatedAt, Why: r.Reason},
			TimelineStep{What: "container_started", At: r.StartedAt}, TimelineStep{What: "registered", At: r.RegisteredAt})
	}
	_, why := faultOf(j)
	steps = append(steps, TimelineStep{What: "job_started", At: j.StartedAt}, TimelineStep{What: "job_completed", At: j.CompletedAt, Why: why})
	t.Steps = timeline(steps...)
	t.WaitedMS, t.RanMS = between(j.QueuedAt, j.StartedAt), between(j.StartedAt, j.CompletedAt)
	return &jobTimelineOutput{t}, nil
}

// runnerOf is the runner that has a job, or while it waits the one that was made for it; a zero one when there is none, or its row is
// older than the fleet remembers.
func (s *Server) runnerOf(ctx context.Context, j store.Job) (store.Runner, error) {
	if j.RunnerID != "" {
		r, err := s.store.Runner(ctx, j.RunnerID)
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return r, err
	}
	if j.State != store.JobQueued {
		return store.Runner{}, nil
	}
	made, err := s.store.RunnerPage(ctx, store.RunnerPage{Live: true, Demand: j.ID, Limit: 1})
	if err != nil || len(made) == 0 {
		return store.Runner{}, err
	}
	return made[0], nil
}

// between is nil while one of the two has not happened. Clocks differ: less than nothing is nothing.
func between(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	return new(max(0, to.Sub(from).Milliseconds()))
}

func (s *Server) rerunJob(ctx context.Context, in *JobPath) (*jobOutput, error) {
	return s.actOnJob(ctx, in.ID, s.fleet.RerunJob)
}

func (s *Server) cancelJob(ctx context.Context, in *JobPath) (*jobOutput, error) {
	return s.actOnJob(ctx, in.ID, s.fleet.CancelRun)
}

// actOnJob has GitHub do something with a job. What comes of it GitHub tells later: the job is shown as it was.
func (s *Server) actOnJob(ctx context.Context, id string, act func(context.Context, store.Job) error) (*jobOutput, error) {
	j, err := s.store.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	err = s.do(ctx, change{kind: "job", id: j.ID, name: j.Repository + " " + j.Name, before: viewJob(j)}, func(ctx context.Context) error { return act(ctx, j) })
	if err != nil {
		return nil, s.githubProblem(err)
	}
	return &jobOutput{viewJob(j)}, nil
}

// githubProblem says what GitHub said to what an operator asked of it.
func (s *Server) githubProblem(err error) error {
	reason := "It gave no reason."
	call, asked := errors.AsType[*github.CallError](err)
	if asked && call.Reason != "" {
		reason = "It says: " + call.Reason
	}
	if limit, ok := errors.AsType[*github.LimitError](err); ok {
		p := problem(http.StatusServiceUnavailable,
			fmt.Sprintf("GitHub asked this installation to wait until %s: %s", limit.Until.UTC().Format(time.RFC3339), limit.Reason), "Send it again then; nothing was asked of GitHub.")
		p.retryAfter = max(1, int(limit.Until.Sub(s.now()).Seconds()))
		return p
	}
	switch {
	case errors.Is(err, github.ErrUnusable):
		return problem(http.StatusConflict, sentence(err), "Give the installation the App's private key, whole, as GitHub made it (zoomies installations update), and check it (zoomies installations check); then send it again.")
	case errors.Is(err, github.ErrRefused):
		return problem(http.StatusConflict, "GitHub refused. "+reason, "Look at the workflow run at GitHub as it is now, and decide again.")
	case errors.Is(err, github.ErrNotFound):
		return problem(http.StatusConflict, "GitHub has no such job any more, or does not show it to the App.", "Look at its repository at GitHub: was the run deleted, is the App still installed there?")
	case errors.Is(err, github.ErrUnauthorized):
		return problem(http.StatusConflict, "GitHub does not let the App do that. "+reason,
			"Give the App the repository permission Actions: read and write, and have the account's owner accept it; then send it again.")
	case errors.Is(err, github.ErrUnknown):
		return problem(http.StatusBadGateway, "GitHub's answer was lost: it may have done it.", "Look at the workflow run at GitHub before you send it again.")
	case asked:
		return problem(http.StatusBadGateway, "GitHub could not be asked. "+reason, "Send it again in a while; see the controller's log if it stays so.")
	}
	return err
}
