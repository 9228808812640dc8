package main

import (
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/scheduler"
)

// rush is a fleet in the middle of one: half of its slots taken, far more jobs than slots, labels in several spellings, some
// pools with a selector, a platform or a limit, some hosts cordoned, some jobs that no pool takes.
func rush(pools, hosts, jobs int, distinct bool) scheduler.Snapshot {
	now := time.Now()
	s := scheduler.Snapshot{Now: now, Tunables: scheduler.DefaultTunables()}
	for i := range pools {
		s.Pools = append(s.Pools, rushPool(i))
	}
	for i := range hosts {
		s.Hosts = append(s.Hosts, scheduler.Host{
			ID: fmt.Sprintf("hst_%03d", i), Name: fmt.Sprintf("host-%03d", i), OS: "linux", Arch: "amd64",
			Labels: map[string]string{"zone": fmt.Sprint(i % 3)}, Backends: []string{"docker", "podman"},
			Capacity: 20, Cordoned: i%50 == 49, LastHeartbeat: now.Add(-10 * time.Second),
		})
	}
	states := []string{"busy", "busy", "busy", "idle", "registering", "failed"}
	for i := range 10 * hosts {
		s.Runners = append(s.Runners, scheduler.Runner{
			ID: fmt.Sprintf("run_%05d", i), PoolID: fmt.Sprintf("pool_%03d", i%pools), HostID: fmt.Sprintf("hst_%03d", i%hosts),
			State: states[i%len(states)], Repository: repository(i),
			CreatedAt: now.Add(-time.Minute), StateAt: now.Add(-time.Minute), FinishedAt: now.Add(-9 * time.Minute),
		})
	}
	spellings := []string{"linux", "Linux", "LINUX"}
	for i := range jobs {
		labels := []string{"self-hosted", spellings[i%len(spellings)], fmt.Sprintf("Team-%d", i*7%(pools+1)), "x64"}
		if distinct {
			labels = append(labels, fmt.Sprint("only-", i))
		}
		s.Jobs = append(s.Jobs, scheduler.Job{
			ID: fmt.Sprintf("job_%05d", i), Account: "acme", Repository: repository(i), Labels: labels,
			State: "queued", QueuedAt: now.Add(-time.Duration(i*7919%jobs) * time.Millisecond),
		})
	}
	return s
}

func rushPool(i int) scheduler.Pool {
	p := scheduler.Pool{
		ID: fmt.Sprintf("pool_%03d", i), Name: fmt.Sprintf("pool-%03d", i), Backend: "podman", Account: "acme", Enabled: true,
		Labels: []string{"self-hosted", "linux", fmt.Sprintf("team-%d", i), fmt.Sprintf("size-%d", i%5)},
		Min:    i % 3, Max: 200, Priority: i % 4, IdleTimeout: 5 * time.Minute,
	}
	if i%4 == 0 {
		p.HostSelector = map[string]string{"zone": fmt.Sprint(i % 3)}
	}
	if i%5 == 0 {
		p.OS, p.Arch = "linux", "amd64"
	}
	if i%10 == 0 {
		p.RepoLimit = 50
	}
	return p
}

func repository(i int) string { return fmt.Sprintf("acme/repo-%d", i%40) }
