package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// InstallationCheck is what GitHub said of an installation.
type InstallationCheck struct {
	OK        bool           `json:"ok" doc:"Nothing is wrong that keeps the fleet from serving it"`
	CheckedAt time.Time      `json:"checked_at"`
	Findings  []CheckFinding `json:"findings" nullable:"false" doc:"One for each thing that was looked at"`
}

// CheckFinding is one thing that was looked at.
type CheckFinding struct {
	Code   string `json:"code" doc:"What was looked at: hold, key, installation, account, permission.<name>, webhook, webhook_secret, event, deliveries"`
	Level  string `json:"level" enum:"ok,warning,error" doc:"An error keeps the fleet from serving it; a warning makes it slower or poorer"`
	Detail string `json:"detail" doc:"How it is"`
	Fix    string `json:"fix,omitempty" doc:"What to do about it"`
}

const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkError   = "error"
)

type checkOutput struct{ Body InstallationCheck }

func (s *Server) checkInstallation(ctx context.Context, in *InstallationPath) (*checkOutput, error) {
	row, err := s.store.Installation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	pools, err := s.store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	c := &installationCheck{row: row, now: s.now(), public: s.public}
	for _, p := range pools {
		if p.InstallationID == row.ID {
			c.organisationRunners = c.organisationRunners || p.Repository == ""
			c.repositoryRunners = c.repositoryRunners || p.Repository != ""
		}
	}
	asking, cancel := context.WithTimeout(ctx, githubPatience)
	defer cancel()
	c.run(asking, s.apps)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	result := InstallationCheck{CheckedAt: c.now, Findings: c.findings}
	result.OK = !slices.ContainsFunc(c.findings, func(f CheckFinding) bool { return f.Level == checkError })
	// It changes nothing, and who had GitHub asked is worth knowing all the same.
	err = s.do(ctx, change{kind: "installation", id: row.ID, name: row.Name, after: result}, func(context.Context) error { return nil })
	return &checkOutput{result}, err
}

// installationCheck gathers findings.
type installationCheck struct {
	row    store.Installation
	now    time.Time
	public string

	organisationRunners, repositoryRunners bool // what its pools register

	app      github.AppDetails
	findings []CheckFinding
}

func (c *installationCheck) sayf(level, code, fix, format string, args ...any) {
	c.findings = append(c.findings, CheckFinding{Code: code, Level: level, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// run asks one thing after the other, and stops where the next would say nothing new.
func (c *installationCheck) run(ctx context.Context, apps *github.Apps) {
	if github.Held(c.now, c.row.HoldUntil) {
		c.sayf(checkError, "hold", "Check again after that.", "GitHub asked the fleet to wait until %s: %s. It was not asked now.",
			c.row.HoldUntil.UTC().Format(time.RFC3339), c.row.HoldReason)
		return
	}
	app, err := apps.App(c.row.BaseURL, c.row.AppID, c.row.PrivateKey)
	if err != nil {
		c.sayf(checkError, "key", c.keyFix(), "%s", sentence(err))
		return
	}
	if c.app, err = app.Details(ctx); err != nil {
		c.failed("key", c.keyFix(), err)
		return
	}
	c.sayf(checkOK, "key", "", "GitHub knows the App %s by this key.", c.app.Name)
	in, err := app.Installation(ctx, c.row.InstallationID)
	switch {
	case errors.Is(err, github.ErrNotFound):
		c.sayf(checkError, "installation", "Install the App again ("+c.app.HTMLURL+"/installations/new) and connect that installation; this one can be deleted.",
			"The App is not installed under the number %d any more.", c.row.InstallationID)
		return
	case err != nil:
		c.failed("installation", "", err)
		return
	case in.SuspendedAt != nil:
		c.sayf(checkError, "installation", "Lift the suspension on "+in.HTMLURL+".", "The installation is suspended since %s.", in.SuspendedAt.UTC().Format(time.RFC3339))
	default:
		c.sayf(checkOK, "installation", "", "The App is installed on %s.", in.Account.Name())
	}
	if !strings.EqualFold(in.Account.Name(), c.row.Account) {
		c.sayf(checkError, "account", "Change the installation's account to "+in.Account.Name()+".", "GitHub calls the account %s, and here it is %s: deliveries and runners miss each other.", in.Account.Name(), c.row.Account)
	}
	c.permissions(in)
	if c.webhook(ctx, app, in) {
		c.deliveries(ctx, app)
	}
}

func (c *installationCheck) keyFix() string {
	return fmt.Sprintf("Make a new private key on the App's settings page and give it to this installation. Check that the App's ID is %d, and this machine's clock.", c.row.AppID)
}

// failed is a call that GitHub refused or did not answer.
func (c *installationCheck) failed(code, fix string, err error) {
	var limit *github.LimitError
	switch {
	case errors.As(err, &limit):
		code, fix = "hold", "Check again after "+limit.Until.UTC().Format(time.RFC3339)+"."
	case errors.Is(err, github.ErrUnauthorized):
	case errors.Is(err, github.ErrNotFound):
		fix = "Check that the App still exists, and that the base URL is that of a GitHub."
	default:
		fix = "Check that this machine reaches GitHub: its name resolution, its proxy, its certificates."
	}
	c.sayf(checkError, code, fix, "%s", sentence(err))
}

// permission is one that the fleet needs, and what is missing below each level of it, the least level first.
type permission struct {
	name  string
	tiers []tier
}

type tier struct{ level, severity, without string }

// needed lists the permissions that an account's runners need.
func needed(accountType string, organisationRunners, repositoryRunners bool) []permission {
	organisation := accountType == accountOrganization
	all := []permission{{"metadata", []tier{{"read", checkError, "repositories cannot be listed"}}}}
	if organisation && (organisationRunners || !repositoryRunners) {
		all = append(all, permission{"organization_self_hosted_runners", []tier{{"write", checkError, "runners cannot be registered at the organisation"}}})
	}
	if !organisation || repositoryRunners {
		all = append(all, permission{"administration", []tier{{"write", checkError, "runners cannot be registered at repositories"}}})
	}
	return append(all, permission{"actions", []tier{
		{"read", checkError, "jobs cannot be seen"},
		{"write", checkWarning, "jobs cannot be run again or cancelled from here"},
	}})
}

var permissionLevels = []string{"", "read", "write", "admin"}

func grants(have map[string]string, name, level string) bool {
	return slices.Index(permissionLevels, have[name]) >= slices.Index(permissionLevels, level)
}

func (c *installationCheck) permissions(in github.AppInstallation) {
	for _, p := range needed(c.row.AccountType, c.organisationRunners, c.repositoryRunners) {
		code, want := "permission."+p.name, p.tiers[len(p.tiers)-1].level
		i := slices.IndexFunc(p.tiers, func(t tier) bool { return !grants(in.Permissions, p.name, t.level) })
		if i < 0 {
			c.sayf(checkOK, code, "", "The App has %s access to %s.", want, p.name)
			continue
		}
		fix := fmt.Sprintf("Give the App %s access to %s on %s/permissions, then accept it on %s.", want, p.name, c.settings(), in.HTMLURL)
		if grants(c.app.Permissions, p.name, p.tiers[i].level) {
			fix = fmt.Sprintf("The App asks for it: an owner of %s has to accept it on %s.", in.Account.Name(), in.HTMLURL)
		}
		c.sayf(p.tiers[i].severity, code, fix, "The App lacks %s access to %s: %s.", p.tiers[i].level, p.name, p.tiers[i].without)
	}
}

// settings is the App's settings page.
func (c *installationCheck) settings() string {
	web := github.WebURL(c.row.BaseURL)
	if c.app.Owner.Type == accountOrganization {
		web += "/organizations/" + c.app.Owner.Name()
	}
	return web + "/settings/apps/" + c.app.Slug
}

// webhook looks at where deliveries go. It says whether they come here.
func (c *installationCheck) webhook(ctx context.Context, app *github.App, in github.AppInstallation) bool {
	hook, err := app.Hook(ctx)
	want := ""
	if c.public != "" {
		want = c.public + webhookPath()
	}
	switch {
	case err != nil && !errors.Is(err, github.ErrNotFound):
		c.failed("webhook", "", err)
		return false
	case err != nil, hook.URL == "":
		fix := "Where GitHub can reach the controller, set a webhook on " + c.settings() + ", with its secret and the event Workflow jobs. Else leave it: polling finds every job."
		c.sayf(checkWarning, "webhook", fix, "The App has no webhook: jobs are found by polling, up to github.poll_interval late.")
		return false
	case want == "":
		c.sayf(checkOK, "webhook", "Set public_url to have it compared.", "The App's webhook goes to %s.", hook.URL)
	case strings.TrimRight(hook.URL, "/") != want:
		c.sayf(checkWarning, "webhook", "Set it to "+want+" on "+c.settings()+", unless something in between passes it on.", "The App's webhook goes to %s, and this controller is %s.", hook.URL, c.public)
	case hook.Unverified():
		c.sayf(checkWarning, "webhook", "Turn SSL verification on, on "+c.settings()+".", "The App's webhook does not check whom it speaks to.")
	default:
		c.sayf(checkOK, "webhook", "", "The App's webhook goes to %s.", hook.URL)
	}
	if c.row.WebhookSecret.Empty() {
		c.sayf(checkWarning, "webhook_secret", "Set a secret on "+c.settings()+" and give it to this installation.", "No webhook secret is known: every delivery is refused.")
	}
	if !slices.Contains(in.Events, "workflow_job") {
		c.sayf(checkWarning, "event", "Subscribe the App to Workflow jobs on "+c.settings()+"/permissions.", "The App does not tell of jobs: they are found by polling.")
	} else {
		c.sayf(checkOK, "event", "", "The App tells of jobs.")
	}
	return true
}

func webhookPath() string { return mustFind("github-webhook").Path }

// deliveries looks at how the last delivery went.
func (c *installationCheck) deliveries(ctx context.Context, app *github.App) {
	all, err := app.Deliveries(ctx)
	if err != nil {
		c.failed("deliveries", "", err)
		return
	}
	i := slices.IndexFunc(all, func(d github.HookDelivery) bool {
		ours := d.InstallationID == 0 || d.InstallationID == c.row.InstallationID
		// GitHub greets a new App's webhook before the fleet has its secret: a refusal then says nothing.
		return ours && (d.StatusCode != http.StatusUnauthorized || !d.DeliveredAt.Before(c.row.CreatedAt))
	})
	if i < 0 {
		c.sayf(checkOK, "deliveries", "", "GitHub has sent nothing since this installation was connected.")
		return
	}
	d := all[i]
	at := d.DeliveredAt.UTC().Format(time.RFC3339)
	if !d.Failed() {
		c.sayf(checkOK, "deliveries", "", "GitHub's last delivery, at %s, was taken.", at)
		return
	}
	fix := "Make the webhook's address reachable for GitHub; until then polling finds every job."
	switch d.StatusCode {
	case http.StatusUnauthorized:
		fix = "The secret at GitHub is another one: set a new one on " + c.settings() + " and give it to this installation."
	case http.StatusNotFound:
		fix = "The webhook's path has to be " + webhookPath() + "."
	}
	c.sayf(checkWarning, "deliveries", fix, "GitHub's last delivery, at %s, failed: %d %.200s.", at, d.StatusCode, d.Status)
}
