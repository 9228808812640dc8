package controller

import (
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A21, A1: sixty jobs at once, over two hosts: one runner each, all run, and GitHub never has a reason to refuse anything.
func TestBurstStaysBelowGitHubsCeilings(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{latency: 20 * time.Millisecond}, func(p *store.Pool) { p.Max = 60 })
	r.host("host-2", 50)
	const jobs = 60
	var ids []int64
	for range jobs {
		ids = append(ids, r.job("ok"))
	}
	for _, id := range ids {
		r.completed(id, "success")
	}
	r.nothingLeft()
	st := r.gh.Stats()
	if st.Limited != 0 || st.PeakConcurrent >= 100 {
		t.Errorf("GitHub refused %d calls; at most %d were under way at once", st.Limited, st.PeakConcurrent)
	}
	if n := len(r.runners()); n > jobs+jobs/10 {
		t.Errorf("%d runners for %d jobs", n, jobs)
	}
	if st.PeakConcurrent < 4 {
		t.Errorf("at most %d calls were under way at once: registrations wait for one another", st.PeakConcurrent)
	}
}
