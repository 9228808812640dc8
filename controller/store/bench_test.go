package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// BenchmarkIngestDelivery is how many webhooks a second are taken in, each acknowledged when it
// is durable on a real disk, with so many arriving at once. Compare BenchmarkFsync, which is what
// the disk allows a writer that commits each by itself.
func BenchmarkIngestDelivery(b *testing.B) {
	for _, senders := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprint("senders=", senders), func(b *testing.B) {
			dir := b.TempDir()
			keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
			if err != nil {
				b.Fatal(err)
			}
			s := storetest.OpenWith(b, store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys})
			f := storetest.Seed(b, s)
			before := s.Commits()
			var n atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range senders {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						u := store.JobUpdate{
							InstallationID: f.Installation.ID, GitHubID: i, RunID: i / 10, RunAttempt: 1, Repository: "acme/site",
							Workflow: "ci", Name: "build", Labels: []string{"self-hosted", "zoomies"}, State: store.JobQueued,
						}
						d := store.Delivery{ID: fmt.Sprint("guid-", i), InstallationID: f.Installation.ID, Event: "workflow_job", Action: "queued", GitHubJobID: i}
						if fresh, _, err := s.IngestDelivery(context.Background(), d, &u); err != nil || !fresh {
							b.Error(fresh, err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
			b.ReportMetric(float64(b.N)/float64(s.Commits()-before), "deliveries/commit")
		})
	}
}

// BenchmarkFsync is the disk's own limit: appending a delivery's worth of bytes and syncing them.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}
