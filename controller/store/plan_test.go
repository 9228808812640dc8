package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// What runs all the time must not read a whole table: old rows are kept for weeks.
func TestHotQueriesUseAnIndex(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	for name, query := range map[string]string{
		"live runners":              selectRunner + " WHERE " + liveRunner + " ORDER BY created_at, id",
		"live runners of a host":    selectRunner + " WHERE " + liveRunner + " AND host_id = 'x' ORDER BY created_at, id",
		"old runners to clean up":   selectRunner + " WHERE " + finishedRunner + " AND NOT (deregistered AND cleaned) AND finished_at < 5",
		"where runners register":    strings.Replace(selectRepositories, "?", "'x'", 1),
		"a runner by name":          selectRunner + " WHERE name = 'x'",
		"unfinished jobs":           selectJob + " WHERE state IN ('queued', 'waiting') AND state <> 'completed' ORDER BY queued_at, github_id",
		"a job by GitHub's ID":      strings.NewReplacer("github_id = ?", "github_id = 5", "id = ?", "id = 'x'").Replace(selectKnownJob),
		"the next task":             selectTask + " WHERE host_id = 'x' AND state = 'pending' ORDER BY " + taskOrder + " LIMIT 1",
		"an outstanding task":       selectTask + " WHERE runner_id = 'x' AND kind = 'y' AND state IN ('pending', 'leased')",
		"leases that ended":         selectTask + " WHERE state = 'leased' AND lease_until <= 5 ORDER BY seq",
		"the next lease end":        "SELECT lease_until FROM tasks WHERE state = 'leased' ORDER BY lease_until LIMIT 1",
		"the last task":             "SELECT MAX(seq) FROM tasks",
		"counts of jobs":            selectJobCounts,
		"live machines":             selectLiveMachines,
		"counts of machines":        "SELECT COUNT(*) FROM machines WHERE " + liveMachine,
		"identities that are taken": strings.NewReplacer("provider_id = ?", "provider_id = 'x'", "deleted_at > ?", "deleted_at > 5").Replace(selectTaken),
		"machines of a provider":    selectMachine + " WHERE provider_id = 'x' ORDER BY created_at, id",
		"unproved machines":         "SELECT id FROM machines WHERE provider_id = 'x' AND " + strings.Replace(unprovedMachine, "?", "5", 1) + " LIMIT 1",
		"a machine by its token":    selectMachine + " WHERE join_token_id = 'x' AND join_token_id <> ''",
		"a machine by its name":     selectMachine + " WHERE name = 'x'",
		"the first job of a host":   strings.NewReplacer("created_at >= ?", "created_at >= 5", "host_id = ?", "host_id = 'x'").Replace(selectFirstBusy),
		"counts of runners":         selectRunnerCounts,
	} {
		plan, err := s.Plan(t.Context(), query)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "INDEX") {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
	for i, query := range prunes {
		plan, err := s.Plan(t.Context(), query, 5, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "INDEX") && !strings.Contains(step, "join_tokens") {
				t.Errorf("prune %d: %s", i, step)
			}
		}
	}
}

// The audit log is never pruned: no page of it may read all of it.
func TestTheAuditLogIsReadThroughAnIndex(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	for name, f := range map[string]AuditFilter{
		"all": {Before: 9}, "by actor": {ActorID: "x", Before: 9}, "by object": {ObjectID: "x"}, "by kind": {ObjectKind: "x"},
		"by action": {Action: "x", After: 3}, "since": {Since: time.Unix(5, 0)}, "between": {Since: time.Unix(5, 0), Until: time.Unix(9, 0)},
	} {
		f.Limit = 10
		query, args := f.query()
		plan, err := s.Plan(t.Context(), query, args...)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(plan) == 0 || !strings.Contains(plan[0], "INDEX") {
			t.Errorf("%s: %q", name, plan)
		}
	}
}

// What runs at every event must read no history at all, and so go through an index that holds none: an index over
// the whole table has the same columns, and would do at first.
func TestQueriesOfEveryEventReadNoHistory(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	some := "state IN ('a', 'b', 'c') AND "
	for query, index := range map[string]string{
		selectDemandJobs:    "jobs_unfinished",
		selectDemandRunners: "runners_kept",
		selectLiveMachines:  "machines_live",
		selectRunner + " WHERE " + some + liveRunner + " ORDER BY created_at, id":                                 "runners_live",
		selectRunner + " WHERE " + finishedRunner + " AND NOT (deregistered AND cleaned) ORDER BY created_at, id": "runners_unclean",
	} {
		plan, err := s.Plan(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan) != 1 || !strings.HasSuffix(plan[0], "INDEX "+index) {
			t.Errorf("%s\nshould use %s: %q", query, index, plan)
		}
	}
}

// A page of deliveries must cost what it shows: no sort of what is not shown.
func TestPagesOfDeliveriesAreInTheOrderOfAnIndex(t *testing.T) {
	t.Parallel()
	s := openForPlans(t)
	for cond, index := range map[string]string{
		"": "deliveries_newest", "installation_id = 'x' AND ": "deliveries_installation", "github_job_id = 7 AND ": "deliveries_job",
	} {
		plan, err := s.Plan(t.Context(), selectDelivery+" WHERE "+cond+"(received_at, id) < (5, 'x')"+deliveryOrder+" LIMIT 5")
		if err != nil {
			t.Fatal(err)
		}
		if len(plan) != 1 || !strings.HasPrefix(plan[0], "SEARCH deliveries USING INDEX "+index+" ") {
			t.Errorf("with %q: %q", cond, plan)
		}
	}
}

func openForPlans(t *testing.T) *Store {
	t.Helper()
	dir := t.TempDir()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
