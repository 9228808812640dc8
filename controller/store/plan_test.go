package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// What runs all the time must not read a whole table: old rows are kept for weeks.
func TestHotQueriesUseAnIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for name, query := range map[string]string{
		"live runners":           selectRunner + " WHERE " + liveRunner + " ORDER BY created_at, id",
		"live runners of a host": selectRunner + " WHERE " + liveRunner + " AND host_id = 'x' ORDER BY created_at, id",
		"runners to clean up":    selectRunner + " WHERE " + finishedRunner + " AND NOT (deregistered AND cleaned) AND finished_at < 5",
		"a runner by name":       selectRunner + " WHERE name = 'x'",
		"unfinished jobs":        selectJob + " WHERE state IN ('queued', 'waiting') AND state <> 'completed' ORDER BY queued_at, github_id",
		"a job by GitHub's ID":   selectJob + " WHERE installation_id = 'x' AND github_id = 5",
		"the next task":          selectTask + " WHERE host_id = 'x' AND state = 'pending' ORDER BY " + taskOrder + " LIMIT 1",
		"an outstanding task":    selectTask + " WHERE runner_id = 'x' AND kind = 'y' AND state IN ('pending', 'leased')",
		"leases that ended":      selectTask + " WHERE state = 'leased' AND lease_until <= 5 ORDER BY seq",
		"the next lease end":     "SELECT lease_until FROM tasks WHERE state = 'leased' ORDER BY lease_until LIMIT 1",
		"the last task":          "SELECT MAX(seq) FROM tasks",
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
