package podman_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// Create against what a user would type, alternating, with the same network and limits. Both
// are measured until the container runs; a workload's own first line is the demo's measure.
func BenchmarkCreateAgainstPodmanRun(b *testing.B) {
	for _, network := range []string{"none", "bridge"} {
		b.Run(network, func(b *testing.B) {
			engine, ctx := open("hst_bench"), b.Context()
			if _, err := engine.Probe(ctx); err != nil {
				b.Fatal(err)
			}
			var ours, theirs []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				w, err := engine.Create(ctx, backend.Spec{
					Name: fmt.Sprintf("bench-%s-%d", network, i), RunnerID: fmt.Sprintf("run_%s_%d", network, i),
					Image: fixture.Image, Command: []string{"sleep", "1000"}, CPUs: 1, MemoryMB: 128, PidsLimit: 100, Network: network,
				})
				ours = append(ours, time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
				if err := engine.Remove(ctx, w.ID); err != nil {
					b.Fatal(err)
				}
				began = time.Now()
				id, err := fixture.Podman(ctx, "run", "--detach", "--network", network, "--cpus", "1", "--memory", "128m", "--pids-limit", "100",
					"--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", fixture.Image, "sleep", "1000")
				theirs = append(theirs, time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fixture.Podman(ctx, "rm", "--force", "--time", "0", id); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			b.ReportMetric(float64(ours[len(ours)/2].Milliseconds()), "create-p50-ms")
			b.ReportMetric(float64(theirs[len(theirs)/2].Milliseconds()), "podman-run-p50-ms")
		})
	}
}
