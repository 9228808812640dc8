package controller

import (
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// An installation that GitHub refuses, or whose key makes no client, is named with what was said, until GitHub answers again.
func TestAnInstallationThatGitHubRefusesIsAProblem(t *testing.T) {
	t.Parallel()
	r, p, _ := noAgents(t, nil)
	in := r.installation(p.InstallationID)
	poll := func() {
		t.Helper()
		s := r.c().settings()
		s.PollFallback = true
		r.c().Apply(s)
		r.c().pollInstallation(t.Context(), r.installation(in.ID), &pollState{})
	}
	says := func(stands bool, why string) {
		t.Helper()
		got, ok := r.problem(problems.GitHubRefused)
		if ok != stands || !strings.Contains(got.Why, why) || ok && got.Subject != in.ID {
			t.Errorf("stands: %v, want %v with %q: %+v", ok, stands, why, got)
		}
	}
	poll()
	says(false, "")
	good := in.PrivateKey
	in.PrivateKey = secrets.Of("no key at all")
	if err := r.st.UpdateInstallation(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	poll()
	says(true, "key")
	in.PrivateKey = good
	if err := r.st.UpdateInstallation(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	poll()
	says(false, "")
	r.gh.SuspendInstallation(in.InstallationID, true)
	r.clock.advance(2 * r.c().settings().PollInterval)
	poll()
	says(true, "suspended")
	r.gh.SuspendInstallation(in.InstallationID, false)
	poll()
	says(false, "")
}
