package github

import (
	"context"
	"net/http"
	"testing"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"
)

// TestRealClientWorks: go-github with ghinstallation, as the controller uses them, speaks to this server.
func TestRealClientWorks(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	in := s.AddInstallation("acme", "Organization")
	s.AddRepository(in, "acme/app")
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	tr, err := ghinstallation.New(base, s.App().ID, in, s.App().PrivateKeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	tr.BaseURL = s.URL()
	c, err := gh.NewClient(&http.Client{Transport: tr}).WithEnterpriseURLs(s.URL(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	jit, _, err := c.Actions.GenerateOrgJITConfig(ctx, "acme", &gh.GenerateJITConfigRequest{Name: "one", RunnerGroupID: 1, Labels: []string{"zoomies"}})
	if err != nil {
		t.Fatal(err)
	}
	rs, resp, err := c.Actions.ListOrganizationRunners(ctx, "acme", nil)
	if err != nil || rs.TotalCount != 1 || rs.Runners[0].GetID() != jit.Runner.GetID() {
		t.Fatalf("list is %+v, %v", rs, err)
	}
	if resp.Rate.Limit != 5000 || resp.Rate.Remaining >= 5000 {
		t.Errorf("rate is %+v", resp.Rate)
	}
}
