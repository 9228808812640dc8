package controller

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A1: more jobs than the pool may have runners, nothing sent twice. All run, never more than two at once, and nothing is left.
func TestMoreJobsThanRunnersAllRun(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, func(p *store.Pool) { p.Max = 2 })
	var ids []int64
	for range 5 {
		ids = append(ids, r.job("ok"))
	}
	for _, id := range ids {
		r.completed(id, "success")
	}
	r.nothingLeft()
	if n := r.hosts[0].engine.Peak(); n > 2 {
		t.Errorf("%d starts at once in a pool of two", n)
	}
	for _, row := range r.runners() {
		if row.State != store.RunnerRemoved {
			t.Errorf("runner %s ended as %s: %s", row.Name, row.State, row.Message)
		}
	}
}
