package api

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Explanation says why a job waits, and what would have to change.
type Explanation struct {
	JobID    string        `json:"job_id"`
	State    string        `json:"state" enum:"waiting,queued,in_progress,completed"`
	Wait     string        `json:"wait" enum:"not_queued,hosted,unmatched,scale_up_delay,repository_limit,runner_coming,creating,pool_at_max,draining,paused,held,backoff,budget,full,no_host,gate,in_doubt" doc:"What it waits for, in a word"`
	Why      string        `json:"why" doc:"A sentence"`
	Change   string        `json:"change" doc:"What would have to change, a sentence"`
	Until    *time.Time    `json:"until,omitempty" doc:"When it is over by itself, where that is known"`
	PoolID   string        `json:"pool_id" doc:"The pool that takes it; empty when none does"`
	Pool     string        `json:"pool" doc:"Its name"`
	Position int           `json:"position" doc:"In the pool's queue: 1 is next; 0 when it is in none"`
	Queued   int           `json:"queued" doc:"Length of that queue"`
	HostID   string        `json:"host_id" doc:"Where its runner is being made; empty when none is"`
	Blocked  *Blocked      `json:"blocked,omitempty" doc:"What keeps the pool from its runners"`
	Pools    []PoolVerdict `json:"pools" nullable:"false" doc:"Every pool of its installation, and whether it could take the job"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Explanation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "until", "blocked")
}

// Blocked says what keeps a pool from the runners that it should have.
type Blocked struct {
	Wanted     int          `json:"wanted" doc:"Runners that it should have and cannot"`
	Causes     []BlockCause `json:"causes" nullable:"false" doc:"Hosts by what keeps each from serving it"`
	Fix        string       `json:"fix" doc:"What an operator can do"`
	AtCapacity bool         `json:"at_capacity" doc:"The hosts that fit are merely full, which is a normal state"`
	Paused     bool         `json:"paused" doc:"Somebody wants it so"`
	Backends   []string     `json:"backends" nullable:"false" doc:"Other backends that fitting hosts offer"`
}

// BlockCause counts hosts.
type BlockCause struct {
	What  string `json:"what" doc:"full, unhealthy, lost, cordoned, draining, selector, platform, or no and a backend"`
	Hosts int    `json:"hosts"`
}

// PoolVerdict says whether a pool could take a job.
type PoolVerdict struct {
	PoolID string `json:"pool_id"`
	Name   string `json:"name"`
	Takes  bool   `json:"takes" doc:"It would, if no other fitted more closely"`
	Why    string `json:"why" doc:"What keeps it from the job, or why another is better"`
}

type explanationOutput struct{ Body Explanation }

func (s *Server) explainJob(ctx context.Context, in *JobPath) (*explanationOutput, error) {
	j, err := s.store.Job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if j.State != store.JobQueued {
		e, err := s.explainOther(ctx, j)
		return &explanationOutput{e}, err
	}
	e, err := s.fleet.Explain(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return &explanationOutput{viewExplanation(ctx, j, e)}, nil
}

func viewExplanation(ctx context.Context, j store.Job, e scheduler.Explanation) Explanation {
	if e.Wait == scheduler.WaitNotQueued {
		return Explanation{
			JobID: j.ID, State: string(j.State), Wait: "in_doubt", Pools: []PoolVerdict{},
			Why:    "the runner that was made for it has ended, and GitHub is being asked whether the job still waits",
			Change: "Nothing: it is known within seconds, and then the job gets another runner if it needs one.",
		}
	}
	v := Explanation{
		JobID: j.ID, State: string(j.State), Wait: string(e.Wait), Why: e.Why, Change: e.Change, Until: optional(e.Until), PoolID: e.PoolID, Pool: e.Pool,
		Position: e.Position, Queued: e.Queued, HostID: e.HostID, Pools: []PoolVerdict{},
	}
	if b := e.Blocked; b != nil {
		v.Blocked = &Blocked{Wanted: b.Wanted, Causes: []BlockCause{}, Fix: b.Fix, AtCapacity: b.AtCapacity, Paused: b.Paused, Backends: orEmpty(b.Backends)}
		for _, c := range b.Causes {
			v.Blocked.Causes = append(v.Blocked.Causes, BlockCause(c))
		}
	}
	for _, p := range e.Pools {
		if sees(ctx, auth.Target{Installation: j.InstallationID, Pool: p.PoolID}) {
			v.Pools = append(v.Pools, PoolVerdict(p))
		}
	}
	return v
}

// explainOther is about a job that waits for nothing of ours.
func (s *Server) explainOther(ctx context.Context, j store.Job) (Explanation, error) {
	e := Explanation{JobID: j.ID, State: string(j.State), Wait: string(scheduler.WaitNotQueued), Pools: []PoolVerdict{}}
	switch j.State {
	case store.JobWaiting:
		e.Wait = "gate"
		e.Why = "GitHub holds it back: its environment wants an approval, or its concurrency group has another run"
		e.Change = "Approve its deployment at GitHub, or let the other run finish; then it is queued."
		return e, nil
	case store.JobInProgress:
		e.Why = "it runs" + onRunner(j)
		e.Change = "Nothing: it has its runner."
	default:
		e.Why = fmt.Sprintf("it is over%s: %s", onRunner(j), orUnknown(j.Conclusion))
		e.Change = "Nothing waits. Run it again to have it run again."
	}
	if fault, why := faultOf(j); fault == faultFleet {
		e.Why += "; the fleet is at fault: " + why
	}
	if j.RunnerID != "" {
		t, err := s.jobTarget(ctx, j)
		e.PoolID = t.Pool
		return e, err
	}
	return e, nil
}

func onRunner(j store.Job) string {
	if j.RunnerName == "" {
		return ""
	}
	return " on runner " + j.RunnerName
}

func orUnknown(conclusion string) string {
	if conclusion == "" {
		return "GitHub has not said how it ended"
	}
	return conclusion
}
