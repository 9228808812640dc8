package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

var runnerStates = []store.RunnerState{
	store.RunnerProvisioning, store.RunnerRegistering, store.RunnerIdle, store.RunnerBusy,
	store.RunnerDraining, store.RunnerFailed, store.RunnerRemoved,
}

// The allow-list, written out once more: a row is "from", a column "to", x is allowed.
const allowed = `
	             prov reg idle busy drain failed removed
	provisioning x    x   .    .    x     x      x
	registering  .    x   x    x    x     x      x
	idle         .    .   x    x    x     x      x
	busy         .    .   x    x    x     x      x
	draining     .    .   .    .    x     x      x
	failed       .    .   .    .    .     x      x
	removed      .    .   .    .    .     .      x
`

// pairs reads the table above.
func pairs(t *testing.T) map[[2]store.RunnerState]bool {
	t.Helper()
	want := make(map[[2]store.RunnerState]bool)
	for _, line := range lines(allowed)[1:] {
		for i, to := range runnerStates {
			want[[2]store.RunnerState{store.RunnerState(line[0]), to}] = line[i+1] == "x"
		}
	}
	if len(want) != 49 {
		t.Fatalf("the table has %d pairs, want 49", len(want))
	}
	return want
}

func TestCanTransitionIsTheAllowList(t *testing.T) {
	t.Parallel()
	for pair, want := range pairs(t) {
		if got := store.CanTransition(pair[0], pair[1]); got != want {
			t.Errorf("%s to %s: %v, want %v", pair[0], pair[1], got, want)
		}
	}
	for _, s := range runnerStates {
		if store.CanTransition(s, "nonsense") || store.CanTransition("nonsense", s) || store.CanTransition("", s) {
			t.Errorf("a state that does not exist is reached from or left for %s", s)
		}
	}
	if store.CanTransition("nonsense", "nonsense") {
		t.Error("a state that does not exist may repeat")
	}
}

// pathTo is a way from provisioning to each state.
var pathTo = map[store.RunnerState][]store.RunnerState{
	store.RunnerProvisioning: {},
	store.RunnerRegistering:  {store.RunnerRegistering},
	store.RunnerIdle:         {store.RunnerRegistering, store.RunnerIdle},
	store.RunnerBusy:         {store.RunnerRegistering, store.RunnerBusy},
	store.RunnerDraining:     {store.RunnerDraining},
	store.RunnerFailed:       {store.RunnerFailed},
	store.RunnerRemoved:      {store.RunnerRemoved},
}

// tester is a test or a property's run.
type tester interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// newRunner makes one runner on the fleet.
func newRunner(t tester, s *store.Store, f storetest.Fleet) store.Runner {
	t.Helper()
	rs := []store.Runner{{
		Name: store.NewID("zoomies-"), PoolID: f.Pool.ID, HostID: f.Host.ID, InstallationID: f.Installation.ID,
		Backend: "podman", Ephemeral: true,
	}}
	if err := s.CreateRunners(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	return rs[0]
}

// at brings a new runner to a state.
func at(t tester, s *store.Store, f storetest.Fleet, state store.RunnerState) store.Runner {
	t.Helper()
	r := newRunner(t, s, f)
	for _, to := range pathTo[state] {
		var err error
		if r, _, err = s.TransitionRunner(t.Context(), r.ID, to, store.Change{}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestTransitionRunnerOnAllPairs(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	for pair, legal := range pairs(t) {
		from, to := pair[0], pair[1]
		t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
			before := at(t, s, f, from)
			c.step(time.Second)
			after, changed, err := s.TransitionRunner(t.Context(), before.ID, to, store.Change{Message: "why", JobID: "job_x"})
			stored, rerr := s.Runner(t.Context(), before.ID)
			if rerr != nil {
				t.Fatal(rerr)
			}
			switch {
			case !legal:
				if !errors.Is(err, store.ErrTransition) || changed {
					t.Errorf("got %v, %v, want ErrTransition", changed, err)
				}
				if diff := cmp.Diff(before, stored); diff != "" {
					t.Errorf("a refused move changed the row:\n%s", diff)
				}
			case from == to:
				before.JobID = "job_x" // the one thing that fills in
				if err != nil || changed || !cmp.Equal(after, before) || !cmp.Equal(stored, before) {
					t.Errorf("a repeated state: %v, %v\n%s", changed, err, cmp.Diff(before, stored))
				}
			default:
				if err != nil || !changed || stored.State != to || !stored.StateAt.Equal(c.now()) || stored.Message != "why" || !cmp.Equal(after, stored) {
					t.Errorf("got %v, %v, %+v", changed, err, stored)
				}
			}
		})
	}
	if _, _, err := s.TransitionRunner(t.Context(), "run_none", store.RunnerIdle, store.Change{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such runner: %v", err)
	}
	if _, _, err := s.TransitionRunner(t.Context(), newRunner(t, s, f).ID, "sideways", store.Change{}); !errors.Is(err, store.ErrTransition) {
		t.Errorf("no such state: %v", err)
	}
}

func TestARepeatedStateFillsWhatWasEmptyAndKeepsWhatWasNot(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	r := at(t, s, f, store.RunnerRemoved)
	finished := r.FinishedAt
	c.step(time.Minute)
	one, two := 1, 2
	started := c.now().Add(-time.Hour)
	for _, ch := range []store.Change{
		{WorkloadID: "w1", ExitCode: &one, JobID: "job_1", OOMKilled: true, StartedAt: started},
		{WorkloadID: "w2", ExitCode: &two, JobID: "job_2", Message: "again", StartedAt: c.now()},
	} {
		if _, changed, err := s.TransitionRunner(t.Context(), r.ID, store.RunnerRemoved, ch); err != nil || changed {
			t.Fatal(changed, err)
		}
	}
	got, err := s.Runner(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := r
	want.WorkloadID, want.ExitCode, want.JobID, want.OOMKilled, want.StartedAt = "w1", &one, "job_1", true, started
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got.FinishedAt.Equal(finished) {
		t.Error("finished_at moved")
	}
}

func TestARepeatedStateCostsNoCommitToDisk(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	r := at(t, s, storetest.Seed(t, s), store.RunnerIdle)
	before := s.Changes(t.Context())
	for range 10 {
		if _, _, err := s.TransitionRunner(t.Context(), r.ID, store.RunnerIdle, store.Change{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Changes(t.Context()); got != before {
		t.Errorf("ten repeated reports changed %d rows", got-before)
	}
}

func TestANonEphemeralRunnerTakesTurns(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	r := at(t, s, storetest.Seed(t, s), store.RunnerIdle)
	registered := r.RegisteredAt
	var firstBusy time.Time
	for i, job := range []string{"job_1", "job_2"} {
		now := c.step(time.Minute)
		if i == 0 {
			firstBusy = now
		}
		var err error
		if r, _, err = s.TransitionRunner(t.Context(), r.ID, store.RunnerBusy, store.Change{JobID: job}); err != nil || r.JobID != job {
			t.Fatal(r.JobID, err)
		}
		now = c.step(time.Minute)
		if r, _, err = s.TransitionRunner(t.Context(), r.ID, store.RunnerIdle, store.Change{}); err != nil || !r.StateAt.Equal(now) {
			t.Fatal(r.StateAt, err)
		}
	}
	if !r.RegisteredAt.Equal(registered) || !r.BusyAt.Equal(firstBusy) {
		t.Errorf("first entries moved: registered %v, busy %v", r.RegisteredAt, r.BusyAt)
	}
}

// model is what a runner's row must be, worked out from the specification and not from the code.
type model struct {
	state                                                         store.RunnerState
	stateAt, startedAt, registeredAt, busyAt, drainAt, finishedAt time.Time
	message                                                       string
}

func (m *model) step(to store.RunnerState, legal bool, message string, now time.Time) (changed bool) {
	if !legal || to == m.state {
		return false
	}
	first := func(field *time.Time, when ...store.RunnerState) {
		if field.IsZero() && slices.Contains(when, to) {
			*field = now
		}
	}
	first(&m.startedAt, store.RunnerRegistering)
	first(&m.registeredAt, store.RunnerIdle, store.RunnerBusy)
	first(&m.busyAt, store.RunnerBusy)
	first(&m.drainAt, store.RunnerDraining)
	first(&m.finishedAt, store.RunnerFailed, store.RunnerRemoved)
	m.state, m.stateAt = to, now
	if message != "" {
		m.message = message
	}
	return true
}

// Whatever anybody reports, in any order, the row follows the machine and its stamps are the
// first entries.
func TestAnySequenceOfReportsFollowsTheMachine(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	legal := pairs(t)
	rapid.Check(t, func(t *rapid.T) {
		r := newRunner(t, s, f)
		m := model{state: store.RunnerProvisioning, stateAt: r.CreatedAt}
		for range rapid.IntRange(1, 14).Draw(t, "reports") {
			now := c.step(time.Duration(rapid.IntRange(0, 3600).Draw(t, "seconds")) * time.Second)
			to := rapid.SampledFrom(runnerStates).Draw(t, "to")
			message := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "message")
			ok := legal[[2]store.RunnerState{m.state, to}]
			wantChanged := m.step(to, ok, message, now)
			_, changed, err := s.TransitionRunner(t.Context(), r.ID, to, store.Change{Message: message})
			if changed != wantChanged || (err == nil) != ok || (err != nil && !errors.Is(err, store.ErrTransition)) {
				t.Fatalf("to %s: changed %v, want %v; %v", to, changed, wantChanged, err)
			}
			got, err := s.Runner(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			is := model{got.State, got.StateAt, got.StartedAt, got.RegisteredAt, got.BusyAt, got.DrainAt, got.FinishedAt, got.Message}
			if is != m {
				t.Fatalf("row %+v, want %+v", is, m)
			}
		}
	})
}

func TestAssignJob(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	ids := int64(0)
	job := func(t *testing.T, state store.JobState) store.Job {
		t.Helper()
		ids++
		ch, err := s.UpsertJob(t.Context(), store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: ids, State: state})
		if err != nil {
			t.Fatal(err)
		}
		return ch.Job
	}
	for from, want := range map[store.RunnerState]store.RunnerState{
		store.RunnerProvisioning: store.RunnerBusy, // GitHub was faster than the agent
		store.RunnerRegistering:  store.RunnerBusy,
		store.RunnerIdle:         store.RunnerBusy,
		store.RunnerBusy:         store.RunnerBusy,
		store.RunnerDraining:     store.RunnerDraining,
		store.RunnerFailed:       store.RunnerFailed,
		store.RunnerRemoved:      store.RunnerRemoved,
	} {
		t.Run("a running job to a runner that is "+string(from), func(t *testing.T) {
			r, j := at(t, s, f, from), job(t, store.JobInProgress)
			now := c.step(time.Second)
			got, changed, err := s.AssignJob(t.Context(), j.ID, r.ID)
			if err != nil || got.State != want || changed != (from != want) || got.JobID != j.ID {
				t.Fatalf("got %s, %v, job %s, %v", got.State, changed, got.JobID, err)
			}
			if changed && (!got.BusyAt.Equal(now) || got.RegisteredAt.IsZero()) {
				t.Error("busy without its stamps")
			}
			if from == store.RunnerProvisioning && !got.StartedAt.IsZero() {
				t.Error("the workload's start is the agent's to say")
			}
			linked, err := s.Job(t.Context(), j.ID)
			if err != nil || linked.RunnerID != r.ID {
				t.Errorf("the job's runner is %q, %v", linked.RunnerID, err)
			}
		})
	}
	t.Run("a job that is over makes nobody busy", func(t *testing.T) {
		r, j := at(t, s, f, store.RunnerIdle), job(t, store.JobCompleted)
		got, changed, err := s.AssignJob(t.Context(), j.ID, r.ID)
		if err != nil || changed || got.State != store.RunnerIdle || got.JobID != j.ID {
			t.Errorf("got %+v, %v, %v", got, changed, err)
		}
	})
	t.Run("who is not there", func(t *testing.T) {
		j := job(t, store.JobInProgress)
		if _, _, err := s.AssignJob(t.Context(), j.ID, "run_none"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		if got, _ := s.Job(t.Context(), j.ID); got.RunnerID != "" {
			t.Error("the job was linked all the same")
		}
	})
}
