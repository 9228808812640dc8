package github

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// visit asks for a page as a browser does, and returns where it leads without going there.
func (r *rig) visit(method, path string, form url.Values) (status int, to *url.URL) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := r.client.Transport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	to, _ = resp.Location()
	return resp.StatusCode, to
}

func (r *rig) manifest(edit func(m map[string]any)) url.Values {
	r.t.Helper()
	m := map[string]any{
		"name": "Our Fleet", "url": "https://fleet.example", "redirect_url": "https://fleet.example/made?x=1", "setup_url": "https://fleet.example/in",
		"hook_attributes": map[string]any{"url": r.sink.URL}, "default_events": []string{"workflow_job"},
		"default_permissions": map[string]string{"actions": "write"},
	}
	if edit != nil {
		edit(m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return url.Values{"manifest": {string(raw)}}
}

func TestAnAppIsMadeFromAManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	old := r.appJWT(nil)
	status, to := r.visit("POST", "/organizations/acme/settings/apps/new?state=s1", r.manifest(nil))
	if status != 302 || to.Host != "fleet.example" || to.Query().Get("state") != "s1" || to.Query().Get("x") != "1" {
		t.Fatalf("%d to %s", status, to)
	}
	convert := "/app-manifests/" + to.Query().Get("code") + "/conversions"
	var made struct {
		ID     int64  `json:"id"`
		Slug   string `json:"slug"`
		PEM    string `json:"pem"`
		Secret string `json:"webhook_secret"`
	}
	r.as("", "POST", convert, "").want(201).into(&made)
	r.as("", "POST", convert, "").want(404) // once
	if made.Slug != "our-fleet" || made.ID != r.App().ID || made.PEM == "" || made.Secret != r.App().WebhookSecret {
		t.Errorf("%+v", made)
	}
	r.as(old, "GET", "/app", "").want(401)
	app := r.appJWT(nil)
	r.as(app, "GET", "/app", "").want(200).says(`"login":"acme"`).says(`"installations_count":0`)
	r.as(app, "GET", "/app/hook/config", "").want(200).says(r.sink.URL)
	if err := r.WaitDeliveries(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.as(app, "GET", "/app/hook/deliveries?per_page=5", "").want(200).says(`"status_code":202`)

	status, to = r.visit("GET", "/apps/our-fleet/installations/new?state=s1", nil)
	if status != 302 || to.Path != "/in" || to.Query().Get("setup_action") != "install" || to.Query().Get("state") != "s1" {
		t.Fatalf("%d to %s", status, to)
	}
	in := to.Query().Get("installation_id")
	r.as(app, "GET", "/app/installations/"+in, "").want(200).says(`"actions":"write"`).says(`"suspended_at":null`)
	var id int64
	_, _ = fmt.Sscan(in, &id)
	r.SuspendInstallation(id, true)
	r.as(app, "GET", "/app/installations/"+in, "").want(200).says(`"suspended_by":{`)
	r.as(app, "POST", "/app/installations/"+in+"/access_tokens", "").want(403)
	r.SuspendInstallation(id, false)
	r.SetInstallationGrants(id, map[string]string{"metadata": "read"}, []string{})
	r.as(app, "GET", "/app/installations/"+in, "").want(200).says(`"events":[]`)

	r.RequireApproval(true)
	if _, to = r.visit("GET", "/apps/our-fleet/installations/new", nil); to.Query().Get("setup_action") != "request" || to.Query().Has("installation_id") {
		t.Errorf("a request leads to %s", to)
	}
	if status, _ = r.visit("GET", "/apps/other/installations/new", nil); status != 404 {
		t.Errorf("another App's page: %d", status)
	}
}

func TestAManifestIsRefusedAsGitHubDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for name, edit := range map[string]func(map[string]any){
		"no name":               func(m map[string]any) { delete(m, "name") },
		"a long name":           func(m map[string]any) { m["name"] = strings.Repeat("x", 35) },
		"no url":                func(m map[string]any) { delete(m, "url") },
		"a webhook without url": func(m map[string]any) { m["hook_attributes"] = map[string]any{"active": false} },
		"an unknown field":      func(m map[string]any) { m["colour"] = "red" },
		"no way back":           func(m map[string]any) { delete(m, "redirect_url") },
	} {
		if status, _ := r.visit("POST", "/settings/apps/new", r.manifest(edit)); status != 422 {
			t.Errorf("%s: %d", name, status)
		}
	}
	// Without a webhook, of a personal account, and too late.
	_, to := r.visit("POST", "/settings/apps/new", r.manifest(func(m map[string]any) { delete(m, "hook_attributes"); delete(m, "default_events") }))
	r.as("", "POST", "/app-manifests/"+to.Query().Get("code")+"/conversions", "").want(201).says(`"webhook_secret":null`).says(`"login":"octocat"`)
	r.as(r.appJWT(nil), "GET", "/app/hook/config", "").want(404)

	c := newClock()
	late := newRig(t, Options{Now: c.now})
	_, to = late.visit("POST", "/settings/apps/new", late.manifest(nil))
	c.add(manifestLife + time.Second)
	late.as("", "POST", "/app-manifests/"+to.Query().Get("code")+"/conversions", "").want(404)
}
