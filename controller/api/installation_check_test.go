package api_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

func TestACheckSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	all := map[string]string{"actions": "write", "metadata": "read", "organization_self_hosted_runners": "write"}
	without := func(name, level string) map[string]string {
		m := map[string]string{}
		maps.Copy(m, all)
		m[name] = level
		return m
	}
	events := []string{"workflow_job"}
	grant := func(permissions map[string]string, events []string) func(*checkRig) {
		return func(c *checkRig) { c.gh.SetInstallationGrants(c.id, permissions, events) }
	}
	for name, tt := range map[string]struct {
		wrong func(*checkRig)
		ok    bool
		level string
		code  string
		says  string // in the finding, detail or fix
	}{
		"all is well":             {grant(all, events), true, "ok", "key", "knows the App"},
		"another key":             {func(c *checkRig) { c.row.AppID++ }, false, "error", "key", "settings page"},
		"a key that is none":      {func(c *checkRig) { c.row.PrivateKey = secrets.Of("canary") }, false, "error", "key", "not an RSA key"},
		"uninstalled":             {func(c *checkRig) { c.gh.RemoveInstallation(c.id) }, false, "error", "installation", "Install the App again"},
		"suspended":               {func(c *checkRig) { c.gh.SuspendInstallation(c.id, true) }, false, "error", "installation", "suspended since"},
		"renamed":                 {func(c *checkRig) { c.row.Account = "old" }, false, "error", "account", "account to octo"},
		"GitHub is away":          {func(c *checkRig) { _ = c.gh.Close() }, false, "error", "key", "reaches GitHub"},
		"no REST root":            {func(c *checkRig) { c.row.BaseURL = strings.TrimSuffix(c.gh.URL(), "/v3") }, false, "error", "key", "base URL"},
		"an outage":               {func(c *checkRig) { c.gh.Inject(simgithub.Outage("GET", "/app")) }, false, "error", "key", "502"},
		"a limit":                 {func(c *checkRig) { c.gh.Inject(simgithub.SecondaryLimit("GET", "/app", 403, time.Minute)) }, false, "error", "hold", "Check again after"},
		"runners not granted":     {grant(without("organization_self_hosted_runners", "read"), events), false, "error", "permission.organization_self_hosted_runners", "owner of octo has to accept"},
		"no actions":              {grant(without("actions", ""), events), false, "error", "permission.actions", "cannot be seen"},
		"no rerun":                {grant(without("actions", "read"), events), true, "warning", "permission.actions", "run again"},
		"runners of repositories": {func(c *checkRig) { c.gh.SetInstallationGrants(c.id, all, events); c.pool("octo/app") }, false, "error", "permission.administration", "repositories"},
		"no event":                {grant(all, []string{}), true, "warning", "event", "Workflow jobs"},
		"no webhook":              {func(c *checkRig) { c.gh.SetWebhookURL("") }, true, "warning", "webhook", "polling"},
		"another's webhook":       {func(c *checkRig) { c.gh.SetWebhookURL("http://127.0.0.1:1/other") }, true, "warning", "webhook", "http://127.0.0.1:1/webhooks/github"},
		"no secret":               {func(c *checkRig) { c.row.WebhookSecret = secrets.Value{} }, true, "warning", "webhook_secret", "refused"},
		"failed deliveries":       {func(*checkRig) {}, true, "warning", "deliveries", "reachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckRig(t)
			tt.wrong(c)
			got := c.check()
			i := slices.IndexFunc(got.Findings, func(f api.CheckFinding) bool { return f.Code == tt.code })
			if i < 0 || got.OK != tt.ok {
				t.Fatalf("no finding %s, or ok is not %v: %+v", tt.code, tt.ok, got)
			}
			f := got.Findings[i]
			if f.Level != tt.level || !strings.Contains(f.Detail+" "+f.Fix, tt.says) || f.Level != "ok" && f.Fix == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// GitHub greets the webhook of an App that it has just made, when nobody here can know its secret yet. That is no trouble of later days.
func TestACheckPassesOverARefusalFromBeforeTheInstallation(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refuses.Close)
	for name, tt := range map[string]struct {
		connected time.Duration // after the delivery
		level     string
		says      string
	}{
		"before": {time.Hour, "ok", "nothing since"},
		"after":  {-time.Hour, "warning", "set a new one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckRig(t)
			c.gh, c.id = newGitHub(t)
			c.gh.SetWebhookURL(refuses.URL)
			if err := c.gh.WaitDeliveries(t.Context()); err != nil {
				t.Fatal(err)
			}
			app := c.gh.App()
			c.row.BaseURL, c.row.AppID, c.row.InstallationID, c.row.PrivateKey = c.gh.URL(), app.ID, c.id, secrets.New(app.PrivateKeyPEM)
			c.now.step(time.Since(c.now.now()) + tt.connected) // GitHub goes by the real clock
			c.admin = c.as("eve", over(auth.Admin))
			got := c.check()
			i := slices.IndexFunc(got.Findings, func(f api.CheckFinding) bool { return f.Code == "deliveries" })
			if i < 0 || got.Findings[i].Level != tt.level || !strings.Contains(got.Findings[i].Detail+got.Findings[i].Fix, tt.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A hold is kept: GitHub is not asked, and that is what the check says.
func TestACheckKeepsAHold(t *testing.T) {
	t.Parallel()
	c := newCheckRig(t)
	if err := c.store.HoldInstallation(context.Background(), c.create().ID, c.now.now().Add(10*time.Minute), "secondary limit"); err != nil {
		t.Fatal(err)
	}
	before := c.gh.Stats().Requests["GET /app"]
	got := c.check()
	if got.OK || len(got.Findings) != 1 || got.Findings[0].Code != "hold" || c.gh.Stats().Requests["GET /app"] != before {
		t.Errorf("%+v", got)
	}
	if rows := c.audit(); len(rows) != 1 || rows[0].Action != "check-installation" {
		t.Errorf("%+v", rows)
	}
	c.call(c.admin, "PATCH", installationsPath+"/"+c.row.ID, map[string]any{"private_key": string(c.gh.App().PrivateKeyPEM)}).want(200)
	if n := c.gh.Stats().Requests["GET /app/installations/{installation_id}"]; n != 0 {
		t.Errorf("a new key was asked about %d times", n)
	}
	if in := into[api.Installation](c.call(c.admin, "GET", installationsPath+"/"+c.row.ID, nil)); in.HoldUntil == nil || in.HoldReason == "" {
		t.Errorf("the hold does not show: %+v", in)
	}
}

type checkRig struct {
	*rig
	gh    *simgithub.Server
	id    int64
	row   store.Installation
	admin string
}

func newCheckRig(t *testing.T) *checkRig {
	t.Helper()
	c := &checkRig{rig: newRigWith(t, func(o *api.Options) { o.PublicURL = "http://127.0.0.1:1/" })}
	c.gh, c.id = newGitHub(t)
	c.gh.SetWebhookURL("http://127.0.0.1:1/webhooks/github") // which nobody can reach
	if err := c.gh.WaitDeliveries(t.Context()); err != nil {
		t.Fatal(err)
	}
	app := c.gh.App()
	c.row = store.Installation{
		Name: "octo", BaseURL: c.gh.URL(), AppID: app.ID, InstallationID: c.id, Account: "octo", AccountType: "Organization",
		PrivateKey: secrets.New(app.PrivateKeyPEM), WebhookSecret: secrets.Of(app.WebhookSecret),
	}
	c.admin = c.as("ada", over(auth.Admin))
	return c
}

// create writes the row, once.
func (c *checkRig) create() store.Installation {
	c.t.Helper()
	if c.row.ID == "" {
		row, err := c.store.CreateInstallation(context.Background(), c.row)
		if err != nil {
			c.t.Fatal(err)
		}
		c.row = row
	}
	return c.row
}

func (c *checkRig) pool(repository string) {
	c.t.Helper()
	if _, err := c.store.CreatePool(context.Background(), store.Pool{Name: "p", InstallationID: c.create().ID, Repository: repository, Backend: "podman", PullPolicy: "missing", Max: 1}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *checkRig) check() api.InstallationCheck {
	c.t.Helper()
	a := c.call(c.admin, "POST", installationsPath+"/"+c.create().ID+"/check", nil).want(200)
	if strings.Contains(string(a.body), "canary") || strings.Contains(string(a.body), "PRIVATE") {
		c.t.Errorf("a secret is shown: %s", a.body)
	}
	return into[api.InstallationCheck](a)
}
