package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// newGitHub is a GitHub whose App is installed on the organisation octo.
func newGitHub(t *testing.T) (gh *simgithub.Server, installation int64) {
	t.Helper()
	gh, err := simgithub.New(simgithub.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gh.Close() })
	return gh, gh.AddInstallation("octo", "Organization")
}

func specOf(gh *simgithub.Server, installation int64) map[string]any {
	app := gh.App()
	return map[string]any{
		"base_url": gh.URL(), "app_id": app.ID, "installation_id": installation,
		"private_key": string(app.PrivateKeyPEM), "webhook_secret": app.WebhookSecret,
	}
}

const installationsPath = "/api/v1/installations"

func TestAnInstallationFromItsConnectionToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, id := newGitHub(t)
	admin := r.as("ada", over(auth.Admin))
	spec := specOf(gh, id)
	delete(spec, "webhook_secret")

	made := into[api.NewInstallation](r.call(admin, "POST", installationsPath, spec).want(http.StatusCreated))
	if made.Name != "octo" || made.Account != "octo" || made.AccountType != "Organization" || !made.HasWebhookSecret || len(made.WebhookSecret) < 20 || made.CreatedAt.IsZero() {
		t.Errorf("made: %+v", made)
	}
	path := installationsPath + "/" + made.ID
	got := r.call(admin, "GET", path, nil).want(200)
	if strings.Contains(string(got.body), made.WebhookSecret) || strings.Contains(string(got.body), "PRIVATE") || strings.Contains(string(got.body), "webhook_secret\":\"") {
		t.Errorf("a secret is shown: %s", got.body)
	}
	row, err := r.store.Installation(context.Background(), made.ID)
	if err != nil || string(row.WebhookSecret.Reveal()) != made.WebhookSecret || string(row.PrivateKey.Reveal()) != spec["private_key"] {
		t.Errorf("the secrets were not kept: %v", err)
	}

	// A second installation of the App has the same webhook, and so the same secret.
	second := specOf(gh, gh.AddInstallation("Person", "User"))
	delete(second, "webhook_secret")
	two := into[api.NewInstallation](r.call(admin, "POST", installationsPath, second).want(201))
	if row, err = r.store.Installation(context.Background(), two.ID); err != nil || string(row.WebhookSecret.Reveal()) != made.WebhookSecret || two.WebhookSecret != "" || two.AccountType != "User" {
		t.Errorf("the second: %+v, %v", two, err)
	}

	// What the fleet sees meanwhile is another answer, and no reason to decide again.
	if err := r.store.HoldInstallation(context.Background(), made.ID, r.now.now().Add(30*time.Minute), "GitHub asked us to wait"); err != nil {
		t.Fatal(err)
	}
	if held := r.call(admin, "GET", path, nil, "If-None-Match", got.header.Get("ETag")).want(200); !strings.Contains(string(held.body), "asked us to wait") {
		t.Errorf("the hold is not shown: %s", held.body)
	}
	r.call(admin, "PATCH", path, map[string]any{"name": "Octo-1"}, "If-Match", got.header.Get("ETag")).want(200)
	r.call(admin, "PATCH", path, map[string]any{"name": "Octo-2"}, "If-Match", got.header.Get("ETag")).want(412)
	r.call(admin, "PATCH", path, map[string]any{"webhook_secret": "canary-canary-canary", "private_key": spec["private_key"]}).want(200)
	if row, err = r.store.Installation(context.Background(), made.ID); err != nil || row.Name != "Octo-1" || string(row.WebhookSecret.Reveal()) != "canary-canary-canary" {
		t.Errorf("after the change: %q, %v", row.Name, err)
	}
	if page := into[api.Page[api.Installation]](r.call(admin, "GET", installationsPath+"?account=OCTO", nil)); len(page.Items) != 1 {
		t.Errorf("by account: %+v", page)
	}
	r.call(admin, "DELETE", installationsPath+"/"+r.seed.Installation.ID, nil).want(409) // it has a pool
	r.call(admin, "DELETE", path, nil).want(204)
	r.call(admin, "GET", path, nil).want(404)

	var did []string
	for _, row := range r.audit() {
		did = append(did, row.Action)
		if text := row.Before + row.After; strings.Contains(text, "canary") || strings.Contains(text, made.WebhookSecret) || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("a secret in the audit log: %s", text)
		}
	}
	if want := "delete-installation update-installation update-installation create-installation create-installation"; strings.Join(did, " ") != want {
		t.Errorf("audit log: %v", did)
	}
	if rotated := r.audit()[1]; !strings.Contains(rotated.After, `"replaced":["webhook_secret","private_key"]`) {
		t.Errorf("what was replaced does not show: %s", rotated.After)
	}
	if r.fleet.looks != 5 {
		t.Errorf("the loops were woken %d times", r.fleet.looks)
	}
	if log := r.log.String(); strings.Contains(log, "PRIVATE KEY") || strings.Contains(log, "canary") {
		t.Error("a secret in the log")
	}
}

func TestABadInstallationConnectsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, id := newGitHub(t)
	admin := r.as("ada", over(auth.Admin))
	down, _ := newGitHub(t)
	_ = down.Close()
	for name, c := range map[string]struct {
		edit   map[string]any
		status int
		says   string
	}{
		"no key":                   {map[string]any{"private_key": ""}, 422, "private_key"},
		"a bad key":                {map[string]any{"private_key": "canary"}, 422, "not an RSA key"},
		"another App":              {map[string]any{"app_id": 1}, 422, "does not take this key"},
		"another installation":     {map[string]any{"installation_id": 1}, 422, "knows no installation 1"},
		"another account":          {map[string]any{"account": "acme"}, 422, "is of octo"},
		"another kind of account":  {map[string]any{"account_type": "User"}, 422, "Organization"},
		"a guessable secret":       {map[string]any{"webhook_secret": "canary"}, 422, "16 characters"},
		"plain http":               {map[string]any{"base_url": "http://ghes.example/api/v3"}, 422, "https"},
		"not a REST root":          {map[string]any{"base_url": "https://ghes.example"}, 422, "/api/v3"},
		"a taken name":             {map[string]any{"name": "acme"}, 409, "another installation"},
		"a bad name":               {map[string]any{"name": "a b"}, 422, "name"},
		"an unknown field":         {map[string]any{"colour": "red"}, 422, "colour"},
		"GitHub is away, no names": {map[string]any{"base_url": down.URL()}, 422, "give account and account_type"},
	} {
		spec := specOf(gh, id)
		maps.Copy(spec, c.edit)
		a := r.call(admin, "POST", installationsPath, spec).want(c.status)
		if !strings.Contains(string(a.body), c.says) || strings.Contains(string(a.body), "canary") || into[api.Problem](a).Fix == "" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	if rows := r.audit(); len(rows) != 0 {
		t.Errorf("failed requests left audit rows: %+v", rows)
	}
	// With GitHub away, what the operator says counts.
	spec := specOf(down, 5)
	spec["account"], spec["account_type"] = "there", "User"
	made := into[api.NewInstallation](r.call(admin, "POST", installationsPath, spec).want(201))
	if made.Account != "there" || made.WebhookSecret != "" {
		t.Errorf("made: %+v", made)
	}
	spec["name"] = "again"
	if a := r.call(admin, "POST", installationsPath, spec).want(409); !strings.Contains(string(a.body), made.ID) {
		t.Errorf("the same installation twice: %s", a.body)
	}
	// Another App has a webhook of its own, and so a secret of its own.
	another := specOf(down, 6)
	delete(another, "webhook_secret")
	another["app_id"], another["account"], another["account_type"] = 77, "elsewhere", "User"
	if made = into[api.NewInstallation](r.call(admin, "POST", installationsPath, another).want(201)); made.WebhookSecret == "" {
		t.Error("the installation of another App took over a secret")
	}
	in := into[api.NewInstallation](r.call(admin, "POST", installationsPath, specOf(gh, id)).want(201))
	r.call(admin, "PATCH", installationsPath+"/"+in.ID, map[string]any{"private_key": "canary"}).want(422)
	r.call(admin, "PATCH", installationsPath+"/"+in.ID, map[string]any{"account": "acme"}).want(422)
	r.call(admin, "PATCH", installationsPath+"/"+in.ID, map[string]any{"webhook_secret": "short"}).want(422)
	r.call(admin, "PATCH", installationsPath+"/"+in.ID, map[string]any{"name": "acme"}).want(409)
}

func TestWhoMaySeeAndChangeInstallations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other, _ := r.neighbour()
	mine := r.seed.Installation.ID
	narrow := r.as("ivo", overInstallation(auth.Admin, mine))
	operator, viewer := r.as("olga", over(auth.Operator)), r.as("vera", over(auth.Viewer))
	patch := map[string]any{"name": "renamed"}
	for _, c := range []struct {
		token, method, path string
		body                any
		status              int
	}{
		{narrow, "GET", installationsPath + "/" + mine, nil, 200},
		{narrow, "PATCH", installationsPath + "/" + mine, patch, 200},
		{narrow, "GET", installationsPath + "/" + other.ID, nil, 404},
		{narrow, "PATCH", installationsPath + "/" + other.ID, patch, 404},
		{narrow, "DELETE", installationsPath + "/" + mine, nil, 403},
		{narrow, "POST", installationsPath, map[string]any{"app_id": 1, "installation_id": 1, "private_key": "x"}, 403},
		{narrow, "GET", "/api/v1/github/apps", nil, 403},
		{narrow, "GET", "/api/v1/deliveries", nil, 403},
		{narrow, "POST", "/api/v1/github/manifest", map[string]any{}, 403},
		{viewer, "GET", installationsPath + "/" + other.ID, nil, 200},
		{viewer, "POST", installationsPath + "/" + mine + "/check", nil, 403},
		{operator, "POST", installationsPath + "/" + mine + "/check", nil, 200},
		{operator, "PATCH", installationsPath + "/" + mine, patch, 403},
		{"", "GET", installationsPath, nil, 401},
		{"", "POST", "/api/v1/github/manifest/x", map[string]any{"code": "x"}, 401},
	} {
		if got := r.call(c.token, c.method, c.path, c.body); got.status != c.status {
			t.Errorf("%s %s: got %d, want %d: %s", c.method, c.path, got.status, c.status, got.body)
		}
	}
	for token, want := range map[string]int{narrow: 1, viewer: 2} {
		if page := into[api.Page[api.Installation]](r.call(token, "GET", installationsPath, nil).want(200)); len(page.Items) != want {
			t.Errorf("sees %d installations, want %d", len(page.Items), want)
		}
	}
}

func TestDeliveriesAreListedPageByPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.as("ada", over(auth.Admin))
	for i := range 5 {
		d := store.Delivery{ID: fmt.Sprint("guid-", i), Event: "workflow_job", Action: "queued", GitHubJobID: int64(i), ReceivedAt: r.now.now().Add(time.Duration(i/2) * time.Second), Outcome: "applied"}
		if i%2 == 0 {
			d.InstallationID = r.seed.Installation.ID
		}
		if _, _, err := r.store.IngestDelivery(context.Background(), d, nil); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{"": "43210", "&installation_id=" + r.seed.Installation.ID: "420", "&github_job_id=3": "3", "&installation_id=ins_none": ""} {
		got, cursor := "", ""
		for {
			page := into[api.Page[api.Delivery]](r.call(admin, "GET", "/api/v1/deliveries?limit=2&cursor="+cursor+query, nil).want(200))
			for _, d := range page.Items {
				got += strings.TrimPrefix(d.ID, "guid-")
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if got != want {
			t.Errorf("with %q: %s, want %s", query, got, want)
		}
	}
	r.call(admin, "GET", "/api/v1/deliveries?cursor=rubbish", nil).want(422)
}
