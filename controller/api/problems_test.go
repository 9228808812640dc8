package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/problems"
)

// troubles raises a problem of every subject.
func (r *rig) troubles() {
	r.fleet.problems.Raise("", problems.Problem{Code: problems.Unmatched})
	r.fleet.problems.Raise(r.seed.Pool.ID, problems.Problem{Code: problems.PoolBlocked, Title: "Pool wants 2 more"})
	r.fleet.problems.Raise(r.seed.Installation.ID, problems.Problem{Code: problems.PollOnly})
	r.fleet.problems.Raise(r.seed.Host.ID, problems.Problem{Code: problems.HostLost})
	r.fleet.problems.RaiseFindings([]config.Finding{{Code: config.CodePollOff, Key: "github.poll_fallback", Title: "The poller is off.", Why: "w", Fix: "f"}})
}

func (r *rig) listed(token, query string) []api.FleetProblem {
	r.t.Helper()
	return into[api.Page[api.FleetProblem]](r.call(token, "GET", "/api/v1/problems"+query, nil).want(http.StatusOK)).Items
}

func codes(list []api.FleetProblem) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Code)
	}
	return strings.Join(out, " ")
}

func TestProblemsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada := r.as("ada", over(auth.Viewer))
	if list := r.listed(ada, ""); len(list) != 0 {
		t.Fatalf("problems from the start: %+v", list)
	}
	r.troubles()
	list := r.listed(ada, "")
	if got, want := codes(list), "hosts.lost pool.blocked config.github.poll_off github.polling_only jobs.unmatched"; got != want {
		t.Fatalf("errors come first, then by code: %s", got)
	}
	lost, blocked, off, unmatched := list[0], list[1], list[2], list[4]
	if blocked.Title != "Pool wants 2 more" || blocked.Why != problems.PoolBlocked.Kind().Why || blocked.Severity != "error" || blocked.Audience != "operator" ||
		blocked.Subject != (api.ProblemSubject{Kind: "pool", ID: r.seed.Pool.ID, Name: r.seed.Pool.Name}) || !blocked.Since.Equal(r.now.now()) ||
		blocked.Link != "docs/reference/problems.md#poolblocked" || blocked.Dismissed {
		t.Errorf("the pool's: %+v", blocked)
	}
	if m := lost.Remedy; m == nil || m.Method != http.MethodDelete || m.Path != "/api/v1/hosts/"+r.seed.Host.ID || m.Command != "zoomies hosts delete "+r.seed.Host.ID {
		t.Errorf("the host's remedy: %+v", m)
	}
	if off.Remedy == nil || off.Remedy.Path != "/api/v1/settings/github.poll_fallback" || off.Subject.Kind != "setting" {
		t.Errorf("the setting's: %+v", off)
	}
	if m := unmatched.Remedy; m == nil || m.Operation != "create-pool" || m.Body["name"] != "<name>" || unmatched.Subject.Kind != "fleet" {
		t.Errorf("the fleet's: %+v", unmatched)
	}
	for query, want := range map[string]string{
		"?severity=error": "hosts.lost pool.blocked", "?code=jobs.unmatched": "jobs.unmatched", "?sort=-code&limit=1": "pool.blocked",
		"?dismissed=true": "", "?severity=warning&dismissed=false&limit=1": "config.github.poll_off",
	} {
		if got := codes(r.listed(ada, query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	r.call(ada, "GET", "/api/v1/problems?severity=awful", nil).want(422)
	r.fleet.problems.Clear(problems.PoolBlocked, r.seed.Pool.ID)
	if got := codes(r.listed(ada, "?severity=error")); got != "hosts.lost" {
		t.Errorf("after one has gone: %s", got)
	}
}

func TestProblemsAreHiddenForOneUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada, bob := r.as("ada", over(auth.Viewer)), r.as("bob", over(auth.Viewer))
	r.troubles()
	path := "/api/v1/problems/pool.blocked/dismissal?subject=" + r.seed.Pool.ID
	hidden := into[api.FleetProblem](r.call(ada, "PUT", path, nil).want(http.StatusOK))
	if !hidden.Dismissed || hidden.Code != "pool.blocked" {
		t.Errorf("hidden: %+v", hidden)
	}
	r.call(ada, "PUT", path, nil).want(http.StatusOK) // again changes nothing
	if got := codes(r.listed(ada, "?dismissed=true")); got != "pool.blocked" {
		t.Errorf("hidden from ada: %s", got)
	}
	if got := codes(r.listed(bob, "?dismissed=true")); got != "" {
		t.Errorf("hidden from bob: %s", got)
	}
	r.call(ada, "PUT", "/api/v1/problems/jobs.unmatched/dismissal", nil).want(http.StatusOK)
	r.call(ada, "PUT", "/api/v1/problems/jobs.unmatched/dismissal?subject=pool_x", nil).want(http.StatusNotFound)
	r.call(ada, "PUT", "/api/v1/problems/pool.blocked/dismissal", nil).want(http.StatusNotFound)
	r.call(ada, "DELETE", "/api/v1/problems/none.such/dismissal", nil).want(http.StatusNotFound)
	r.call(ada, "DELETE", path, nil).want(http.StatusNoContent)
	if got := codes(r.listed(ada, "?dismissed=true")); got != "jobs.unmatched" {
		t.Errorf("hidden from ada: %s", got)
	}
	rows := r.audit()
	if len(rows) != 4 || rows[0].Action != "restore-problem" || rows[0].Before != `{"dismissed":true}` || rows[0].After != `{"dismissed":false}` ||
		rows[3].Action != "dismiss-problem" || rows[3].ObjectID != "pool.blocked/"+r.seed.Pool.ID {
		t.Errorf("audit: %+v", rows)
	}
}

func TestProblemsOfOthersAreNotSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, other := r.neighbour()
	r.troubles()
	r.fleet.problems.Raise(other.ID, problems.Problem{Code: problems.PoolBlocked})
	mine := r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID))
	installation := r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID))
	for token, want := range map[string]string{mine: "pool.blocked", installation: "pool.blocked github.polling_only"} {
		if got := codes(r.listed(token, "")); got != want {
			t.Errorf("sees %s, want %s", got, want)
		}
	}
	r.call(mine, "PUT", "/api/v1/problems/pool.blocked/dismissal?subject="+other.ID, nil).want(http.StatusNotFound)
	r.call(r.as("nemo"), "GET", "/api/v1/problems", nil).want(http.StatusForbidden)
	r.call("", "GET", "/api/v1/problems", nil).want(http.StatusUnauthorized)
	reader := r.tokenOf(r.user("rita", over(auth.Viewer)), "fleet:read")
	r.call(reader, "GET", "/api/v1/problems", nil).want(http.StatusOK)
	r.call(reader, "PUT", "/api/v1/problems/pool.blocked/dismissal?subject="+other.ID, nil).want(http.StatusForbidden)
}
