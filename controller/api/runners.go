package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Runner is a runner as the API shows it.
type Runner struct {
	ID             string     `json:"id" doc:"run_…"`
	Name           string     `json:"name" doc:"At GitHub and on its host"`
	PoolID         string     `json:"pool_id"`
	HostID         string     `json:"host_id"`
	InstallationID string     `json:"installation_id"`
	Backend        string     `json:"backend"`
	Image          string     `json:"image"`
	State          string     `json:"state" enum:"provisioning,registering,idle,busy,draining,failed,removed"`
	Message        string     `json:"message" doc:"Why it is in this state; may be empty"`
	Reason         string     `json:"reason" doc:"Why it was made"`
	GitHubID       int64      `json:"github_id" doc:"Its registration's number; 0 before it has one"`
	JobID          string     `json:"job_id" doc:"The job that it runs or ran; empty for none"`
	DemandJobID    string     `json:"demand_job_id" doc:"The job that it was made for, which need not be the one it gets"`
	Ephemeral      bool       `json:"ephemeral"`
	CPUs           float64    `json:"cpus" doc:"0 is no limit"`
	MemoryMB       int64      `json:"memory_mb" doc:"MiB; 0 is no limit"`
	ExitCode       *int       `json:"exit_code,omitempty"`
	OOMKilled      bool       `json:"oom_killed" doc:"It was killed for using more memory than it had"`
	CreatedAt      time.Time  `json:"created_at"`
	StateAt        time.Time  `json:"state_at" doc:"When it came into its state"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	RegisteredAt   *time.Time `json:"registered_at,omitempty"`
	BusyAt         *time.Time `json:"busy_at,omitempty"`
	DrainAt        *time.Time `json:"drain_at,omitempty"`
	FinishedAt     *time.Time `json:"finished_at,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Runner) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "exit_code", "started_at", "registered_at", "busy_at", "drain_at", "finished_at")
}

func viewRunner(r store.Runner) Runner {
	return Runner{
		ID: r.ID, Name: r.Name, PoolID: r.PoolID, HostID: r.HostID, InstallationID: r.InstallationID, Backend: r.Backend, Image: r.Image,
		State: string(r.State), Message: r.Message, Reason: r.Reason, GitHubID: r.GitHubID, JobID: r.JobID, DemandJobID: r.DemandJobID,
		Ephemeral: r.Ephemeral, CPUs: r.CPUs, MemoryMB: r.MemoryMB, ExitCode: r.ExitCode, OOMKilled: r.OOMKilled,
		CreatedAt: r.CreatedAt, StateAt: r.StateAt, StartedAt: optional(r.StartedAt), RegisteredAt: optional(r.RegisteredAt),
		BusyAt: optional(r.BusyAt), DrainAt: optional(r.DrainAt), FinishedAt: optional(r.FinishedAt),
	}
}

// RunnerTimeline says when a runner did what.
type RunnerTimeline struct {
	RunnerID string         `json:"runner_id"`
	State    string         `json:"state"`
	Steps    []TimelineStep `json:"steps" nullable:"false" doc:"In their order"`
}

type (
	// RunnerPath names one in a path; huma looks only into exported types.
	RunnerPath struct {
		ID string `path:"id" maxLength:"64" doc:"The runner's ID"`
	}
	runnerOutput         struct{ Body Runner }
	runnersOutput        struct{ Body Page[Runner] }
	runnerTimelineOutput struct{ Body RunnerTimeline }
	listRunners          struct {
		PageParams
		State          []string `query:"state" enum:"provisioning,registering,idle,busy,draining,failed,removed" doc:"Only runners in one of these states, with commas between them"`
		Live           bool     `query:"live" doc:"Only runners that are neither removed nor failed"`
		PoolID         string   `query:"pool_id" maxLength:"64" doc:"Only runners of this pool"`
		HostID         string   `query:"host_id" maxLength:"64" doc:"Only runners of this host"`
		InstallationID string   `query:"installation_id" maxLength:"64" doc:"Only runners of this installation"`
	}
)

func addRunners(s *Server) {
	register(s, "list-runners", s.listRunners)
	register(s, "get-runner", s.getRunner)
	register(s, "get-runner-timeline", s.runnerTimeline)
	register(s, "stop-runner", s.stopRunner)
	s.raw("watch-runner-logs", s.watchRunnerLogs)
	s.describeStream("watch-runner-logs", []*huma.Param{{
		Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(64)}, Description: "The runner's ID",
	}}, map[string]any{"log": LogChunk{}, "lost": LogLost{}, "end": LogEnd{}})
}

func (s *Server) listRunners(ctx context.Context, in *listRunners) (*runnersOutput, error) {
	at, err := in.after()
	if err != nil {
		return nil, err
	}
	rows, err := s.store.RunnerPage(ctx, store.RunnerPage{
		States: states[store.RunnerState](in.State), Live: in.Live, Pool: in.PoolID, Host: in.HostID, Installation: in.InstallationID,
		Within: within(ctx), After: at, Limit: in.Limit + 1,
	})
	return &runnersOutput{pageOf(rows, in.Limit, func(r store.Runner) store.After { return store.After{At: r.CreatedAt, ID: r.ID} }, viewRunner)}, err
}

func (s *Server) getRunner(ctx context.Context, in *RunnerPath) (*runnerOutput, error) {
	r, err := s.store.Runner(ctx, in.ID)
	return &runnerOutput{viewRunner(r)}, err
}

func (s *Server) runnerTimeline(ctx context.Context, in *RunnerPath) (*runnerTimelineOutput, error) {
	r, err := s.store.Runner(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	drained, ended := r.Message, "" // a row has the message of its last change that had one
	if r.DrainAt.IsZero() || r.State == store.RunnerFailed {
		drained, ended = "", r.Message
	}
	return &runnerTimelineOutput{RunnerTimeline{RunnerID: r.ID, State: string(r.State), Steps: timeline(
		TimelineStep{What: "runner_created", At: r.CreatedAt, Why: r.Reason},
		TimelineStep{What: "container_started", At: r.StartedAt},
		TimelineStep{What: "registered", At: r.RegisteredAt},
		TimelineStep{What: "job_started", At: r.BusyAt},
		TimelineStep{What: "draining", At: r.DrainAt, Why: drained},
		TimelineStep{What: "runner_finished", At: r.FinishedAt, Why: ended},
	)}}, nil
}

// sortSteps sorts by time, and leaves steps of one moment as they are.
func sortSteps(steps []TimelineStep) {
	slices.SortStableFunc(steps, func(a, b TimelineStep) int { return a.At.Compare(b.At) })
}

func (s *Server) stopRunner(ctx context.Context, in *RunnerPath) (*struct{}, error) {
	r, err := s.store.Runner(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !r.State.Live() {
		return nil, problem(http.StatusConflict, "Runner "+r.Name+" has ended already.", "Nothing is left to do.")
	}
	before := viewRunner(r)
	after := before
	after.State = string(store.RunnerDraining)
	why := "it was stopped by " + principal(ctx).Name
	if before.State != after.State {
		after.Message = why
	}
	err = s.do(ctx, change{kind: "runner", id: r.ID, name: r.Name, before: before, after: after}, func(ctx context.Context) error {
		return s.fleet.StopRunner(ctx, r.ID, why)
	})
	if errors.Is(err, store.ErrTransition) {
		return nil, problem(http.StatusConflict, "Runner "+r.Name+" has ended in this moment.", "Nothing is left to do.")
	}
	return nil, err
}
