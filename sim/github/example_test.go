package github_test

import (
	"fmt"

	"github.com/zoomies-fleet/zoomies/sim/github"
)

// A test scripts its GitHub: an installation, a job, a fault. A client is given URL and App, a runner the JIT
// configuration.
func Example() {
	s, err := github.New(github.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	s.AddRepository(s.AddInstallation("acme", "Organization"), "acme/app")
	s.Inject(github.LostAnswer("POST", "/orgs/*/actions/runners/generate-jitconfig"))

	id := s.QueueJob(github.JobSpec{
		Repository: "acme/app", Labels: []string{"self-hosted", "zoomies"},
		Steps: []github.Step{{Name: "Test", Run: "echo tested"}},
	})
	fmt.Println(s.Job(id).Status)
	s.CancelJob(id)
	fmt.Println(s.Job(id).Status, s.Job(id).Conclusion)
	// Output:
	// queued
	// completed cancelled
}
