package store_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// Runners of an earlier release's database get the scope of their pools.
func TestMigrationGivesRunnersTheirScope(t *testing.T) {
	t.Parallel()
	path := filepath.Join(storetest.Dir(t), "zoomies.db")
	if err := store.MigrateTo(t.Context(), path, 3); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for _, stmt := range []string{
		"PRAGMA foreign_keys = OFF",
		`INSERT INTO pools VALUES ('pool_1', 'one', 'ins_1', 'acme/widgets', 0, '[]', '', '', '', '', '', '{}', 0, 0, 0, TRUE, TRUE, 0, 0, 0, 0, 0, 0, 0, '', FALSE, '', '', '{}', 0, 0)`,
		`INSERT INTO runners VALUES ('run_1', 'r1', 'pool_1', 'hst_1', 'ins_1', '', '', 'idle', '', '', 0, '', '', '', TRUE, 0, 0, NULL, FALSE, 1, 1, 0, 0, 0, 0, 0, FALSE, FALSE)`,
		`INSERT INTO runners VALUES ('run_2', 'r2', 'pool_x', 'hst_1', 'ins_1', '', '', 'idle', '', '', 0, '', '', '', TRUE, 0, 0, NULL, FALSE, 2, 2, 0, 0, 0, 0, 0, FALSE, FALSE)`,
	} {
		if _, err := db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	s := storetest.OpenWith(t, store.Options{Path: path})
	rows, err := s.Runners(t.Context(), store.RunnerFilter{})
	if err != nil || len(rows) != 2 || rows[0].Repository != "acme/widgets" || rows[1].Repository != "" {
		t.Errorf("after the migration the runners are %+v: %v", rows, err)
	}
	if at, err := s.RunnerRepositories(t.Context(), "ins_1"); err != nil || !slices.Equal(at, []string{"acme/widgets"}) {
		t.Errorf("the runners register at %q: %v", at, err)
	}
}
