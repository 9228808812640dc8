package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// A kept statement that was not reset would hold its connection at the state of an earlier read.
func TestKeptStatementsSeeEveryEarlierWrite(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	ctx := context.Background()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 40 {
				id := int64(1000*n + i + 1)
				u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: id, Repository: "acme/site", State: store.JobQueued}
				for _, u.State = range []store.JobState{store.JobQueued, store.JobInProgress, store.JobCompleted} {
					if _, err := s.UpsertJob(ctx, u); err != nil {
						t.Error(err)
						return
					}
					// A read that is cut short leaves its statement behind as well.
					cut, cancel := context.WithCancel(ctx)
					go cancel()
					if _, err := s.Jobs(cut, store.JobFilter{}); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					cancel()
					j, err := s.JobByGitHubID(ctx, f.Installation.ID, id)
					if err != nil || j.State != u.State {
						t.Errorf("job %d was written as %s and read as %q (%v)", id, u.State, j.State, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestMoreTextsThanStatementsAreKept(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	ctx := context.Background()
	for i := range int64(3) {
		if _, err := s.UpsertJob(ctx, store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: i + 1, Repository: "acme/site", State: store.JobQueued}); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 600; n++ { // each limit is a text of its own
		jobs, err := s.Jobs(ctx, store.JobFilter{Limit: n})
		if err != nil || len(jobs) != min(n, 3) {
			t.Fatalf("limit %d: %d jobs, %v", n, len(jobs), err)
		}
	}
	if n := s.KeptStatements(); n > 256 {
		t.Error(fmt.Sprint(n, " statements are kept"))
	}
}
