package controller

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A problem that a user has hidden is hidden for as long as it stands: when it comes back, it is news.
func TestADismissalEndsWithItsProblem(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	c := r.c()
	hide := func(code problems.Code, subject string) {
		t.Helper()
		if err := r.st.Dismiss(t.Context(), "usr_1", store.Dismissal{Code: code.String(), Subject: subject}); err != nil {
			t.Fatal(err)
		}
	}
	hidden := func() int {
		t.Helper()
		if err := c.endDismissals(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := r.st.Dismissals(t.Context(), "usr_1")
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	c.problems.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked})
	hide(problems.PoolBlocked, "pool_1")
	hide(problems.PoolBlocked, "pool_2") // of an earlier controller, which was stopped before the problem was over
	if n := hidden(); n != 2 {
		t.Fatalf("%d are hidden while one stands and of the other nothing is known yet", n)
	}
	c.problems.Clear(problems.PoolBlocked, "pool_1")
	if n := hidden(); n != 1 {
		t.Errorf("%d are hidden after one has gone", n)
	}
	c.problems.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked})
	hide(problems.PoolBlocked, "pool_1")
	r.clock.advance(dismissalSettle)
	if n := hidden(); n != 1 {
		t.Errorf("%d are hidden once this controller has seen everything: one stands", n)
	}
}

func TestProblemsAreAnnouncedWhenTheyChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	c := r.c()
	sub := c.Events().Subscribe(16)
	defer sub.Close()
	c.problems.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked, Why: "no host"})
	c.problems.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked, Why: "no host"})
	c.say(scheduler.Snapshot{Now: r.clock.now(), Tunables: scheduler.DefaultTunables()}, scheduler.Plan{}) // the pool is gone
	if len(c.Problems()) != 0 {
		t.Errorf("the problems of a pool that is gone stay: %+v", c.Problems())
	}
	if n := len(sub.C); n != 2 {
		t.Errorf("%d announcements of a problem that came and went", n)
	}
	if e := <-sub.C; e.Kind != events.ProblemsChanged {
		t.Errorf("announced %v", e)
	}
}

func TestFindingsAboutTheSettingsAreProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	c, err := New(t.Context(), Options{Store: r.st, Settings: r.set, Now: r.clock.now, Findings: []config.Finding{
		{Severity: config.Warning, Code: config.CodePollOff, Key: "github.poll_fallback", Title: "The fallback poller is off.", Why: "w", Fix: "f"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	list := c.Problems()
	if len(list) != 1 || list[0].Code != problems.OfFinding(config.CodePollOff) || list[0].Subject != "github.poll_fallback" || list[0].Since.IsZero() {
		t.Errorf("problems: %+v", list)
	}
}
