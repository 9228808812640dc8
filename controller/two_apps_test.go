package controller

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// again adds a second installation of an account, through another App, which sees its organisation and none of its repositories.
func (r *rig) again(in store.Installation) store.Installation {
	r.t.Helper()
	app := r.gh.App()
	second, err := r.st.CreateInstallation(r.t.Context(), store.Installation{
		Name: in.Account + "-second", BaseURL: in.BaseURL, AppID: app.ID, InstallationID: r.gh.AddInstallation(in.Account, "Organization"),
		Account: "ACME", AccountType: in.AccountType, PrivateKey: secrets.New(app.PrivateKeyPEM), WebhookSecret: secrets.Of(app.WebhookSecret),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return second
}

// An organisation with two Apps, and pools on both: a job runs in whichever pool fits, whoever told of it, and gets one runner.
func TestJobRunsInAPoolOfAnotherAppOfItsAccount(t *testing.T) {
	t.Parallel()
	r, first := fleet(t, rigOptions{}, nil)
	second := r.again(r.installation(first.InstallationID))
	big := r.pool(second, func(p *store.Pool) { p.Name, p.Labels, p.Min = "big", []string{"big"}, 1 })
	warm := r.idle()
	if err := r.c().reapInstallation(t.Context(), r.installation(first.InstallationID)); err != nil {
		t.Fatal(err)
	}
	if regs := r.gh.Runners(); len(regs) != 1 || regs[0].Name != warm.Name {
		t.Fatalf("after the reap of the other App the registrations are %+v", regs)
	}
	id := r.gh.QueueJob(simgithub.JobSpec{Repository: "acme/widgets", Labels: []string{"big"}, Steps: []simgithub.Step{{Run: "wait"}}})
	r.waitJob(id, simgithub.StatusInProgress, "")
	if j := r.jobOf(second.ID, id); j.InstallationID != first.InstallationID {
		t.Fatalf("the job was told of by %s: this test is about the other App", j.InstallationID)
	}
	big.Min = 0
	if err := r.st.UpdatePool(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	r.finishJob(id)
	r.completed(id, "success")
	next := r.gh.QueueJob(simgithub.JobSpec{Repository: "acme/widgets", Labels: []string{"big"}})
	if j := r.completed(next, "success"); j.RunnerName == warm.Name {
		t.Error("an ephemeral runner ran twice")
	}
	r.nothingLeft()
	for _, row := range r.runners() {
		if row.PoolID != big.ID {
			t.Errorf("runner %s is of pool %s", row.Name, row.PoolID)
		}
	}
}

// What one App told of lately is no news when another polls it, and costs no write.
func TestPollOfASecondAppWritesNothingTwice(t *testing.T) {
	t.Parallel()
	r, first := fleet(t, rigOptions{still: true}, nil)
	second := r.again(r.installation(first.InstallationID))
	said := []github.JobState{{GitHubID: 7, RunID: 1, Repository: "acme/widgets", Labels: []string{"zoomies"}, Status: "queued"}}
	if n := r.c().learnJobs(t.Context(), r.installation(first.InstallationID), said); n != 1 {
		t.Fatalf("the first poll brought %d jobs", n)
	}
	before := r.jobRow(first.InstallationID, 7)
	if n := r.c().learnJobs(t.Context(), second, said); n != 0 {
		t.Errorf("the second App's poll brought %d jobs", n)
	}
	if after := r.jobRow(second.ID, 7); !after.CheckedAt.Equal(before.CheckedAt) || after.ID != before.ID {
		t.Errorf("the job was written again: %+v, before %+v", after, before)
	}
	if js, err := r.st.Jobs(t.Context(), store.JobFilter{GitHubOf: second.ID}); err != nil || len(js) != 1 {
		t.Errorf("%d rows of one job: %v", len(js), err)
	}
}
