package scheduler

import (
	"fmt"
	"testing"
	"time"
)

// Faults that users of other systems reported, replayed on ours. The ids are rows of the list of
// field reports.

// drive decides and applies, lets every started runner take the oldest queued job and finish it,
// and returns how many jobs finished within so many rounds.
func drive(s Snapshot, rounds int) (finished int) {
	for range rounds {
		s = apply(s, Decide(s))
		var runners []Runner
		for _, r := range s.Runners {
			if r.State == provisioning && len(s.Jobs) > 0 {
				s.Jobs = s.Jobs[1:]
				finished++
				continue // an ephemeral runner is gone after its job
			}
			runners = append(runners, r)
		}
		s.Runners = runners
		s.Now = s.Now.Add(10 * time.Second)
		for i := range s.Hosts {
			s.Hosts[i].LastHeartbeat = s.Now
		}
	}
	return finished
}

func TestJobsBeyondTheMaximumAreNotForgotten(t *testing.T) { // A1
	t.Parallel()
	s := newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 2 }).jobs(5, nil).Snapshot
	if n := drive(s, 3); n != 5 {
		t.Errorf("%d of 5 jobs finished", n)
	}
}

func TestCompletedJobsNeverLowerTheDemand(t *testing.T) { // A4
	t.Parallel()
	f := newFleet().host("a", 9).pool("p", nil).job("rerun", nil)
	for i := range 5 {
		f.job(fmt.Sprintf("old_%d", i), nil, func(j *Job) { j.State = "completed" })
	}
	f.job("rerun's first attempt", nil, func(j *Job) { j.State = "completed" })
	equal(t, "creates", ids(f.decide(), Create), []string{"rerun"})
}

func TestACancelledJobsRunnerIsWithdrawnWhileItStarts(t *testing.T) { // A8
	t.Parallel()
	s := newFleet().host("a", 9).pool("p", nil).jobs(2, nil).Snapshot
	s = apply(s, Decide(s))
	s.Jobs = s.Jobs[:1] // one is cancelled
	plan := Decide(s)
	if len(of(plan, Withdraw)) != 1 || len(plan.Actions) != 1 {
		t.Fatalf("want one withdrawal, got %+v", plan.Actions)
	}
	s = apply(s, plan)
	if plan := Decide(s); len(plan.Actions) != 0 {
		t.Errorf("the next decision does %+v", plan.Actions)
	}
}

func TestARunnerTakenByAnotherJobIsReplacedWithinTheMaximum(t *testing.T) { // A9
	t.Parallel()
	made := func(r *Runner) { r.DemandJobID = "mine" }
	f := newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Max = 2 }).job("mine", nil).runner("r1", "p", busy, made)
	equal(t, "creates", ids(f.decide(), Create), []string{"mine"})
	f.runner("r2", "p", busy, made) // the replacement is taken as well
	equal(t, "creates at the maximum", ids(f.decide(), Create), []string{})
	if d := decision(t, f.decide(), "p"); d.Desired != 2 || d.Queued != 1 {
		t.Errorf("the job is forgotten: %+v", d)
	}
}

func TestOneJobToldTwiceIsOneJob(t *testing.T) { // A11
	t.Parallel()
	f := newFleet().host("a", 9).pool("p", nil).
		job("j", nil).job("j", nil, func(j *Job) { j.QueuedAt = ago(time.Minute) }). // webhook and poller
		job("k", nil).job("k", nil, func(j *Job) { j.State = inProgress })           // one of them is late
	plan := f.decide()
	equal(t, "creates", ids(plan, Create), []string{"j"})
	if d := decision(t, plan, "p"); d.Queued != 1 {
		t.Errorf("%d queued, want 1", d.Queued)
	}
}

func TestAJobIsAnsweredInTheDecisionThatFirstSeesIt(t *testing.T) { // A12
	t.Parallel()
	plan := newFleet().host("a", 9).pool("p", nil).job("j", nil, func(j *Job) { j.QueuedAt = now }).decide()
	equal(t, "creates", ids(plan, Create), []string{"j"})
}

func TestLabelsMatchInAnyCase(t *testing.T) { // A13
	t.Parallel()
	plan := newFleet().host("a", 9).pool("Linux", labels("Linux")).pool("GPU", labels("GPU")).
		job("j1", labels("LINUX", "self-hosted")).job("j2", labels("gpu")).decide()
	if len(of(plan, Create)) != 2 || len(plan.Unmatched) != 0 {
		t.Errorf("got %+v", plan)
	}
}

func TestAPoolWithSomeOfTheLabelsIsNotScaled(t *testing.T) { // A14
	t.Parallel()
	plan := newFleet().host("h", 9).pool("a", labels("a")).pool("ab", labels("a", "b")).job("j", labels("a", "b")).decide()
	if got := perPool(plan); got["ab"] != 1 || len(got) != 1 {
		t.Errorf("creates are %v, want one for ab", got)
	}
}

func TestJobsForGitHubsOwnMachinesCreateNothing(t *testing.T) { // A16
	t.Parallel()
	plan := newFleet().host("h", 9).pool("p", labels("gpu")).job("hosted", labels("ubuntu-latest")).job("typo", labels("anything")).decide()
	if len(plan.Actions) != 0 || len(plan.Unmatched) != 2 {
		t.Fatalf("got %+v", plan)
	}
	if u := plan.Unmatched[0]; u.JobID != "hosted" || !u.Hosted {
		t.Errorf("a hosted job is not told apart: %+v", u)
	}
	if u := plan.Unmatched[1]; u.Hosted || u.Reason == "" {
		t.Errorf("a job that nobody serves is not told: %+v", u)
	}
}

func TestFailedRunnersAreNoCapacityAndFiveCrashesBackOff(t *testing.T) { // A33
	t.Parallel()
	f := newFleet().host("a", 1).pool("p", nil).fail(1, time.Minute).job("j", nil)
	equal(t, "creates with a failed runner on the only slot", ids(f.decide(), Create), []string{"j"})

	s := newFleet().host("a", 1).pool("p", nil).job("j", nil).Snapshot
	start, attempts := s.Now, []time.Duration{}
	for range 400 { // a second each: every runner crashes at once
		plan := Decide(s)
		if len(of(plan, Create)) > 0 {
			attempts = append(attempts, s.Now.Sub(start))
		}
		s = apply(s, plan)
		for i := range s.Runners {
			if r := &s.Runners[i]; r.State == provisioning {
				r.State, r.FinishedAt = failed, s.Now
			}
		}
		s.Now = s.Now.Add(time.Second)
		s.Hosts[0].LastHeartbeat = s.Now
	}
	want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second}
	if fmt.Sprint(attempts) != fmt.Sprint(want) {
		t.Errorf("attempts at %v, want %v", attempts, want)
	}
}

func TestADrainingHostIsNoCapacity(t *testing.T) { // A41
	t.Parallel()
	f := newFleet().host("a", 4, func(h *Host) { h.Cordoned = true }).pool("p", nil).job("j", nil).runner("r", "p", "draining")
	plan := f.decide()
	d := decision(t, plan, "p")
	if len(of(plan, Create)) != 0 || d.Live != 0 || d.Blocked == nil || d.Blocked.AtCapacity {
		t.Fatalf("a host that drains with three free slots counts: %+v", d)
	}
	equal(t, "creates with another host", ids(f.host("b", 1).decide(), Create), []string{"j"})
}
