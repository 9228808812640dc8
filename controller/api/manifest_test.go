package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

const manifestPath = "/api/v1/github/manifest"

// browser is what a person clicks through the manifest flow with. It follows redirects and knows no token.
type browser struct {
	t       *testing.T
	visited []string
}

type page struct {
	status int
	header http.Header
	body   string
	at     *url.URL
}

func (b *browser) do(req *http.Request, err error) page {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	c := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		b.visited = append(b.visited, r.URL.String())
		return nil
	}}
	resp, err := c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{resp.StatusCode, resp.Header, string(raw), resp.Request.URL}
}

func (b *browser) open(address string) page {
	b.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	return b.do(req, err)
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)">`)
	formField  = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// form is what a page posts by itself, and where.
func (b *browser) form(p page) (action, manifest string) {
	b.t.Helper()
	a, m := formAction.FindStringSubmatch(p.body), formField.FindStringSubmatch(p.body)
	if p.status != 200 || a == nil || m == nil {
		b.t.Fatalf("no form on a page %d: %s", p.status, p.body)
	}
	return html.UnescapeString(a[1]), html.UnescapeString(m[1])
}

func (b *browser) submit(p page) page {
	b.t.Helper()
	action, manifest := b.form(p)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, action, strings.NewReader(url.Values{"manifest": {manifest}}.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.do(req, err)
}

func (r *rig) begin(token string, gh *simgithub.Server, edit map[string]any) api.ManifestStart {
	r.t.Helper()
	body := map[string]any{"organization": "octo", "base_url": gh.URL(), "public_url": r.url, "name": "Our Fleet"}
	maps.Copy(body, edit)
	return into[api.ManifestStart](r.call(token, "POST", manifestPath, body).want(200))
}

func TestABrowserConnectsGitHubThroughTheManifestFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	admin := r.as("ada", over(auth.Admin))
	start := r.begin(admin, gh, nil)
	if !strings.HasPrefix(start.URL, r.url+"/setup/github/") || !start.Webhook || !start.ExpiresAt.Equal(r.now.now().Add(time.Hour)) {
		t.Errorf("%+v", start)
	}

	b := &browser{t: t}
	form := b.open(start.URL)
	action, _ := b.form(form)
	origin := strings.TrimSuffix(gh.URL(), "/api/v3")
	if !strings.HasPrefix(action, origin+"/organizations/octo/settings/apps/new?state=") {
		t.Errorf("the form goes to %s", action)
	}
	csp := form.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "form-action 'self' " + origin + ";", "frame-ancestors 'none'", "script-src 'nonce-"} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy %q lacks %q", csp, want)
		}
	}
	end := b.submit(form) // to GitHub, back with the code, to the install page, back with the installation
	if end.status != 200 || !strings.Contains(end.body, "GitHub is connected") || !strings.Contains(end.body, "octo") {
		t.Fatalf("the flow ended with %d: %s", end.status, end.body)
	}
	if len(b.visited) != 3 || !strings.Contains(b.visited[0], "/created?code=") || !strings.Contains(b.visited[1], "/apps/our-fleet/installations/new?state=") || !strings.Contains(b.visited[2], "/installed?installation_id=") {
		t.Errorf("the browser went over %q", b.visited)
	}

	apps := into[api.Page[api.GitHubApp]](r.call(admin, "GET", "/api/v1/github/apps", nil).want(200))
	if len(apps.Items) != 1 || apps.Items[0].Name != "Our Fleet" || apps.Items[0].Owner != "octo" || apps.Items[0].AppID != gh.App().ID {
		t.Fatalf("apps: %+v", apps)
	}
	list := into[api.Page[api.Installation]](r.call(admin, "GET", installationsPath+"?account=octo", nil).want(200))
	if len(list.Items) != 1 || !list.Items[0].HasWebhookSecret {
		t.Fatalf("installations: %+v", list)
	}
	in, err := r.store.Installation(context.Background(), list.Items[0].ID)
	if err != nil || string(in.WebhookSecret.Reveal()) != gh.App().WebhookSecret || string(in.PrivateKey.Reveal()) != string(gh.App().PrivateKeyPEM) {
		t.Errorf("the installation did not take over the App's secrets: %v", err)
	}
	check := into[api.InstallationCheck](r.call(admin, "POST", installationsPath+"/"+in.ID+"/check", nil).want(200))
	if !check.OK {
		t.Errorf("what the manifest asks for is not enough: %+v", check)
	}

	var did []string
	for _, row := range r.audit() {
		did = append(did, row.Action)
		if !strings.HasPrefix(row.ActorName, "ada/") || strings.Contains(row.Before+row.After, gh.App().WebhookSecret) || strings.Contains(row.After, "PRIVATE") {
			t.Errorf("audit row %+v", row)
		}
	}
	if want := "check-installation manifest-installed manifest-created start-manifest"; strings.Join(did, " ") != want {
		t.Errorf("audit log: %v", did)
	}
	for _, v := range append(b.visited, start.URL) {
		if strings.Contains(v, gh.App().WebhookSecret) {
			t.Errorf("a secret in %s", v)
		}
	}

	// The code works once; the pages bear a reload, and make nothing twice.
	if again := b.open(b.visited[0]); again.status != 200 || !strings.Contains(again.body, in.ID) {
		t.Errorf("the created page again: %d %s", again.status, again.body)
	}
	if again := b.open(b.visited[2]); again.status != 200 || !strings.Contains(again.body, in.ID) {
		t.Errorf("the installed page again: %d %s", again.status, again.body)
	}
	if again := b.open(start.URL); again.status != 200 || strings.Contains(again.body, "<form") {
		t.Errorf("the first page again: %s", again.body)
	}
	if apps := into[api.Page[api.GitHubApp]](r.call(admin, "GET", "/api/v1/github/apps", nil)); len(apps.Items) != 1 {
		t.Errorf("apps: %+v", apps)
	}
	if rows := r.audit(); len(rows) != len(did) {
		t.Errorf("reloads left audit rows: %+v", rows[0])
	}
	r.call(admin, "DELETE", "/api/v1/github/apps/"+apps.Items[0].ID, nil).want(204)
	r.call(admin, "GET", installationsPath+"/"+in.ID, nil).want(200) // it keeps its key
}

// manifest decodes what the first page posts.
func (b *browser) manifest(address string) map[string]any {
	b.t.Helper()
	_, text := b.form(b.open(address))
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

func TestTheManifestAsksForWhatIsNeededAndNoMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	admin := r.as("ada", over(auth.Admin))
	b := &browser{t: t}
	github := map[string]any{"base_url": ""}
	for name, c := range map[string]struct {
		edit        map[string]any
		permissions string
		webhook     bool
	}{
		"an organisation":    {nil, "map[actions:write metadata:read organization_self_hosted_runners:write]", true},
		"with repositories":  {map[string]any{"repository_runners": true}, "map[actions:write administration:write metadata:read organization_self_hosted_runners:write]", true},
		"a personal account": {map[string]any{"organization": ""}, "map[actions:write administration:write metadata:read]", true},
		"no webhook wanted":  {map[string]any{"webhook": false}, "map[actions:write metadata:read organization_self_hosted_runners:write]", false},
		"out of reach":       {github, "map[actions:write metadata:read organization_self_hosted_runners:write]", false},
	} {
		start := r.begin(admin, gh, c.edit)
		m := b.manifest(start.URL)
		if got := fmt.Sprint(m["default_permissions"]); got != c.permissions || m["public"] != false {
			t.Errorf("%s: %v", name, m)
		}
		_, hook := m["hook_attributes"]
		_, events := m["default_events"]
		if hook != c.webhook || events != c.webhook || start.Webhook != c.webhook {
			t.Errorf("%s: webhook %v: %v", name, c.webhook, m)
		}
	}
	if m := b.manifest(r.begin(admin, gh, map[string]any{"name": ""}).URL); !strings.HasPrefix(m["name"].(string), "Zoomies octo-") || len(m["name"].(string)) > 34 {
		t.Errorf("the name is %v", m["name"])
	}
	// What somebody types is text on the page, and nothing else.
	nasty := b.open(r.begin(admin, gh, map[string]any{"name": `"><script>alert(1)`}).URL)
	if strings.Contains(nasty.body, "<script>alert") {
		t.Errorf("the page runs what was typed: %s", nasty.body)
	}

	for name, body := range map[string]map[string]any{
		"nobody said where":      {"organization": "octo"},
		"in the clear":           {"public_url": "http://zoomies.example"},
		"with a path":            {"public_url": "https://zoomies.example/x"},
		"no address":             {"public_url": "zoomies.example"},
		"a bad organisation":     {"public_url": r.url, "organization": "a/b"},
		"a long name":            {"public_url": r.url, "name": strings.Repeat("x", 35)},
		"GitHub over plain http": {"public_url": r.url, "base_url": "http://ghes.example/api/v3"},
	} {
		if a := r.call(admin, "POST", manifestPath, body).want(422); into[api.Problem](a).Fix == "" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// code goes with the flow up to GitHub's code, as where GitHub cannot send the browser back.
func (b *browser) code(start api.ManifestStart) string {
	b.t.Helper()
	form := b.open(start.URL)
	action, manifest := b.form(form)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, action, strings.NewReader(url.Values{"manifest": {manifest}}.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		b.t.Fatal(err)
	}
	return to.Query().Get("code")
}

func TestAMachineThatGitHubCannotSendABrowserToIsConnectedToo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	admin, other := r.as("ada", over(auth.Admin)), r.as("eve", over(auth.Admin))
	b := &browser{t: t}
	start := r.begin(admin, gh, nil)
	code := b.code(start)
	finish := manifestPath + "/" + start.State
	r.call(other, "POST", finish, map[string]any{"code": code}).want(404)
	r.call(admin, "POST", manifestPath+"/none", map[string]any{"code": code}).want(404)
	if a := r.call(admin, "POST", finish, map[string]any{"code": "wrong"}).want(409); !strings.Contains(string(a.body), "does not know this code") {
		t.Errorf("%s", a.body)
	}
	app := into[api.GitHubApp](r.call(admin, "POST", finish, map[string]any{"code": code}).want(200))
	if again := into[api.GitHubApp](r.call(admin, "POST", finish, map[string]any{"code": code}).want(200)); again.ID != app.ID {
		t.Errorf("%+v is not %+v", again, app)
	}

	// Nobody has installed it yet; then an organisation whose name is taken, a user, and one that is suspended.
	adopt := func() api.Adoption {
		return into[api.Adoption](r.call(admin, "POST", "/api/v1/github/apps/"+app.ID+"/adopt", nil).want(200))
	}
	if got := adopt(); len(got.Created)+len(got.Known)+len(got.Skipped) != 0 {
		t.Errorf("%+v", got)
	}
	taken := gh.AddInstallation("acme", "Organization")
	gh.AddInstallation("person", "User")
	gh.SuspendInstallation(gh.AddInstallation("lazy", "Organization"), true)
	got := adopt()
	if len(got.Created) != 2 || len(got.Skipped) != 1 || got.Skipped[0].Account != "lazy" || got.Created[0].Name != fmt.Sprint("acme-", taken) || got.Created[1].AccountType != "User" {
		t.Errorf("%+v", got)
	}
	if got = adopt(); len(got.Created) != 0 || len(got.Known) != 2 {
		t.Errorf("a second time: %+v", got)
	}
	for _, row := range r.audit()[:2] {
		if row.Action != "adopt-installations" || row.ObjectID != app.ID || strings.Contains(row.After, "PRIVATE") {
			t.Errorf("audit row %+v", row)
		}
	}
	gh.Inject(simgithub.SecondaryLimit("GET", "/app/installations", 429, time.Minute))
	r.call(admin, "POST", "/api/v1/github/apps/"+app.ID+"/adopt", nil).want(429)
	_ = gh.Close()
	r.now.step(2 * time.Minute)
	if a := r.call(admin, "POST", "/api/v1/github/apps/"+app.ID+"/adopt", nil).want(409); !strings.Contains(string(a.body), "reaches GitHub") {
		t.Errorf("%s", a.body)
	}
	r.call(admin, "POST", "/api/v1/github/apps/app_none/adopt", nil).want(404)
	bad, err := r.store.CreateGitHubApp(context.Background(), store.GitHubApp{Name: "bad", AppID: 1, PrivateKey: secrets.Of("canary")})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.call(admin, "POST", "/api/v1/github/apps/"+bad.ID+"/adopt", nil).want(409); strings.Contains(string(a.body), "canary") {
		t.Errorf("%s", a.body)
	}
}

func TestTheManifestPagesRefuseWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	admin, eve := r.as("ada", over(auth.Admin)), r.as("eve", over(auth.Admin))
	b := &browser{t: t}
	start := r.begin(admin, gh, nil)
	code := b.code(start)
	back := "?code=" + code + "&state=" + start.State
	for name, c := range map[string]struct {
		path   string
		status int
		says   string
	}{
		"an unknown link":       {"/setup/github/none", 404, "begin again"},
		"without a state":       {"/setup/github/" + start.State + "/created?code=" + code, 400, "GitHub did not send you"},
		"with another state":    {"/setup/github/" + start.State + "/created?code=" + code + "&state=x", 400, "GitHub did not send you"},
		"without a code":        {"/setup/github/" + start.State + "/created?state=" + start.State, 400, "GitHub did not send you"},
		"with a wrong code":     {"/setup/github/" + start.State + "/created?code=x&state=" + start.State, 409, "does not know this code"},
		"installed before made": {"/setup/github/" + start.State + "/installed?installation_id=1&setup_action=install", 409, "has not been made yet"},
	} {
		p := b.open(r.url + c.path)
		if p.status != c.status || !strings.Contains(p.body, c.says) || !strings.HasPrefix(p.header.Get("Content-Type"), "text/html") || p.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %s", name, p.status, p.body)
		}
	}
	if a := r.call(eve, "GET", "/setup/github/"+start.State, nil); a.status != 403 || !strings.Contains(string(a.body), "somebody else") {
		t.Errorf("another user: %d %s", a.status, a.body)
	}
	if apps := into[api.Page[api.GitHubApp]](r.call(admin, "GET", "/api/v1/github/apps", nil)); len(apps.Items) != 0 {
		t.Errorf("apps: %+v", apps)
	}

	// Asking for an approval, a forged installation, and an installation of nobody's.
	gh.RequireApproval(true)
	if p := b.open(start.URL + "/created" + back); p.status != 200 || !strings.Contains(p.body, "owner has to approve") || !strings.Contains(p.body, "/adopt") {
		t.Errorf("a request: %d %s", p.status, p.body)
	}
	if p := b.open(start.URL + "/installed?installation_id=999999&setup_action=install"); p.status != 409 || !strings.Contains(p.body, "knows no installation") {
		t.Errorf("a forged installation: %d %s", p.status, p.body)
	}
	if p := b.open(start.URL + "/installed?installation_id=-1"); p.status != 400 {
		t.Errorf("no installation: %d %s", p.status, p.body)
	}
	if list := into[api.Page[api.Installation]](r.call(admin, "GET", installationsPath, nil)); len(list.Items) != 1 {
		t.Errorf("installations: %+v", list)
	}

	// An hour later the link is spent, and says how to go on.
	r.now.step(time.Hour)
	if p := b.open(start.URL + "/installed?installation_id=1"); p.status != 404 || !strings.Contains(p.body, "adopt") {
		t.Errorf("a spent link: %d %s", p.status, p.body)
	}
}

// Whoever lost their role within the hour does not connect GitHub any more, and a lost answer says what was lost.
func TestTheManifestFlowAsksAgainWhetherItMay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	u := r.user("ada", over(auth.Admin))
	r.user("root", over(auth.Platform))
	admin := r.tokenOf(u, "*")
	b := &browser{t: t}
	start := r.begin(admin, gh, nil)
	code := b.code(start)
	back := start.URL + "/created?code=" + code + "&state=" + start.State
	u.Grants[0].Role = string(auth.Viewer)
	if err := r.store.UpdateUser(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	if p := b.open(back); p.status != 403 || !strings.Contains(p.body, "may not connect GitHub any more") {
		t.Errorf("%d %s", p.status, p.body)
	}
	u.Grants[0].Role = string(auth.Admin)
	if err := r.store.UpdateUser(context.Background(), u); err != nil {
		t.Fatal(err)
	}
	gh.Inject(simgithub.LostAnswer("POST", "/app-manifests/*/conversions"))
	if p := b.open(back); p.status != 409 || !strings.Contains(p.body, "its key is lost") {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := b.open(back); p.status != 409 || !strings.Contains(p.body, "was used before") {
		t.Errorf("%d %s", p.status, p.body)
	}
}

func TestManifestFlowsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gh, _ := newGitHub(t)
	admin := r.as("ada", over(auth.Admin))
	first := r.begin(admin, gh, nil)
	r.now.step(time.Second)
	b := &browser{t: t}
	var last api.ManifestStart
	for range 100 {
		last = r.begin(admin, gh, nil)
	}
	if p := b.open(first.URL); p.status != 404 {
		t.Errorf("the oldest of 101 is still there: %d", p.status)
	}
	if p := b.open(last.URL); p.status != 200 {
		t.Errorf("the newest is not there: %d", p.status)
	}
}
