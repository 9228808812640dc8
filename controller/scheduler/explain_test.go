package scheduler

import (
	"strings"
	"testing"
	"time"
)

func TestExplainSaysWhyAJobWaits(t *testing.T) {
	t.Parallel()
	older := func(j *Job) { j.QueuedAt = ago(time.Minute) }
	most := func(n int) func(*Pool) { return func(p *Pool) { p.Max = n } }
	for _, c := range []struct {
		rule  string
		fleet *fleet
		want  Wait
		why   string
	}{
		{"unknown", newFleet(), WaitNotQueued, "no such job"},
		{"in progress", newFleet().job("j", nil, func(j *Job) { j.State = inProgress }), WaitNotQueued, "in progress"},
		{"hosted", newFleet().pool("p", nil).job("j", labels("ubuntu-latest")), WaitHosted, "GitHub's own machines"},
		{"unmatched", newFleet().pool("p", nil).job("j", labels("x")), WaitUnmatched, "lacks x"},
		{"delay", newFleet().pool("p", nil, func(p *Pool) { p.ScaleUpDelay = time.Minute }).job("j", nil), WaitDelay, "1m"},
		{"repository limit", newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.RepoLimit = 1 }).jobs(1, nil, older).job("j", nil), WaitRepoLimit, "1 runner"},
		{"runner coming", newFleet().pool("p", nil).job("j", nil).runner("r", "p", registering), WaitRunner, "starting or idle"},
		{"creating", newFleet().host("a", 1).pool("p", nil).job("j", nil), WaitCreate, "on host a"},
		{"maximum", newFleet().host("a", 9).pool("p", nil, most(1)).jobs(1, nil, older).job("j", nil), WaitMax, "no more than 1 runner"},
		{"draining", newFleet().host("a", 9).pool("p", nil, most(1)).runner("r", "p", "draining").job("j", nil), WaitDraining, "draining"},
		{"held", newFleet().host("a", 9).pool("p", nil, func(p *Pool) { p.Held = "rate limit" }).job("j", nil), WaitHeld, "rate limit"},
		{"backoff", newFleet().host("a", 9).pool("p", nil).fail(1, time.Second).job("j", nil), WaitBackoff, "after 1 failure"},
		{"budget", newFleet().host("a", 9).pool("p", nil).tune(func(t *Tunables) { t.TickBudget = 1 }).jobs(1, nil, older).job("j", nil), WaitBudget, "next pass"},
		{"full", newFleet().host("a", 1).pool("p", nil).jobs(1, nil, older).job("j", nil), WaitFull, "1 full"},
		{"no host", newFleet().pool("p", nil).job("j", nil), WaitNoHost, "the fleet has none"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			e := Explain(c.fleet.Snapshot, "j")
			if e.Wait != c.want || !strings.Contains(e.Why, c.why) || e.JobID != "j" {
				t.Errorf("it waits for %q because %q, want %q with %q", e.Wait, e.Why, c.want, c.why)
			}
			if !strings.HasSuffix(e.Change, ".") {
				t.Errorf("what would have to change is not a sentence: %q", e.Change)
			}
			switch e.Wait {
			case WaitFull, WaitNoHost, WaitHeld, WaitBackoff, WaitDraining:
				if e.Blocked == nil || e.Change != e.Blocked.Fix {
					t.Errorf("blocked is %+v, and what would have to change %q", e.Blocked, e.Change)
				}
			default:
				if e.Blocked != nil {
					t.Errorf("blocked is %+v", e.Blocked)
				}
			}
			if (e.Wait == WaitDelay || e.Wait == WaitBackoff) == e.Until.IsZero() {
				t.Errorf("until is %s", e.Until)
			}
		})
	}
}

func TestExplainGivesThePlaceInTheQueue(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 1).pool("p", nil).pool("q", labels("q")).jobs(3, nil).job("other", labels("q")).job("zz", nil)
	e := Explain(f.Snapshot, "zz")
	if e.Pool != "p" || e.PoolID != "pool_p" || e.Position != 4 || e.Queued != 4 {
		t.Errorf("got %+v", e)
	}
	if e := Explain(f.Snapshot, "job_000"); e.Position != 1 || e.HostID != "hst_a" {
		t.Errorf("got %+v", e)
	}
}

func TestExplainJudgesEveryPool(t *testing.T) {
	t.Parallel()
	f := newFleet().host("a", 1).
		pool("best", labels("x")).
		pool("disabled", labels("x"), func(p *Pool) { p.Enabled = false }).
		pool("elsewhere", labels("x"), func(p *Pool) { p.Repository = "acme/web" }).
		pool("lacking", labels("y")).
		pool("mac", labels("x"), func(p *Pool) { p.OS = "darwin" }).
		pool("stranger", labels("x"), func(p *Pool) { p.Account = "globex" }).
		pool("wide", labels("x", "y")).
		job("j", labels("x", "linux"))
	var got []string
	for _, v := range Explain(f.Snapshot, "j").Pools {
		got = append(got, v.Name+": "+v.Why)
		if v.Takes != (v.Name == "best" || v.Name == "wide") {
			t.Errorf("pool %s takes it: %v", v.Name, v.Takes)
		}
	}
	equal(t, "verdicts", got, []string{
		"best: ",
		"disabled: is disabled",
		"elsewhere: serves only acme/web",
		"lacking: lacks x",
		"mac: is for macos and the job asks for linux",
		"wide: could take it, but pool best fits more closely",
	})
}
