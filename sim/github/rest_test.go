package github

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TestEveryRoute walks every route through its good answer and its refusals; the rig checks each answer
// against GitHub's description.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	app := r.appJWT(nil)
	r.as(app, "GET", "/app", "").want(200).says(`"slug":"zoomies"`)
	r.as(app, "GET", "/app/hook/config", "").want(404)
	r.as(app, "GET", "/app/hook/deliveries", "").want(200)
	r.as("", "POST", "/app-manifests/none/conversions", "").want(404)
	r.as(app, "GET", "/app/installations", "").want(200)
	r.as(app, "GET", fmt.Sprintf("/app/installations/%d", r.inst), "").want(200).says(`"login":"acme"`)
	r.as(app, "GET", "/app/installations/1", "").want(404)
	r.as(app, "POST", "/app/installations/1/access_tokens", "").want(404)
	r.do("GET", "/installation/repositories", "").want(200).says(`"full_name":"acme/app"`)
	r.do("GET", "/rate_limit", "").want(200).says("actions_runner_registration")
	r.as("", "GET", "/rate_limit", "").want(200)
	r.do("GET", "/nothing/here", "").want(404)
	r.do("PUT", "/orgs/acme/actions/runners", "").want(404)

	for _, scope := range []string{"/orgs/acme", "/repos/acme/app"} {
		f := r.mint(scope, "one", "zoomies")
		runner := fmt.Sprintf("%s/actions/runners/%d", scope, f.id)
		r.do("GET", runner, "").want(200).says(`"status":"offline"`)
		f.online()
		r.do("GET", runner, "").want(200).says(`"status":"online"`)
		r.do("POST", scope+"/actions/runners/generate-jitconfig", jit("one", "zoomies")).want(409).says("Already exists")
		r.do("POST", scope+"/actions/runners/registration-token", "").want(201)
		if l := r.list(scope, ""); l.Total != 1 || l.Runners[0].Name != "one" {
			t.Errorf("list of %s is %+v", scope, l)
		}

		job := r.QueueJob(JobSpec{Repository: repo, Labels: []string{"zoomies"}, Steps: []Step{{Run: "true"}}})
		run := fmt.Sprintf("/repos/acme/app/actions/runs/%d", r.Job(job).RunID)
		r.do("GET", "/repos/acme/app/actions/runs?status=queued", "").want(200).says(`"total_count":1`)
		f.take()
		r.do("DELETE", runner, "").want(422).says("still running a job")
		r.do("GET", "/repos/acme/app/actions/runs?status=in_progress", "").want(200).says(`"total_count":1`)
		r.do("POST", run+"/rerun", "").want(403)
		r.do("GET", run+"/jobs?filter=latest", "").want(200).says(`"status":"in_progress"`)
		r.do("GET", fmt.Sprintf("/repos/acme/app/actions/jobs/%d", job), "").want(200).says(`"runner_name":"one"`)
		f.finish(job, "Failed")
		r.do("GET", run, "").want(200).says(`"conclusion":"failure"`)
		r.do("POST", run+"/cancel", "").want(409)
		r.do("POST", run+"/rerun-failed-jobs", "").want(201)
		r.do("GET", run+"/jobs", "").want(200).says(`"run_attempt":2`).says(`"total_count":1`)
		r.do("GET", run+"/jobs?filter=all", "").want(200).says(`"total_count":2`)
		r.do("POST", run+"/cancel", "").want(202)
		r.do("POST", run+"/rerun", "").want(201)
		again := fmt.Sprintf("/repos/acme/app/actions/jobs/%d/rerun", r.Jobs()[len(r.Jobs())-1].ID)
		r.do("POST", again, "").want(403).says("already running")
		r.do("POST", run+"/cancel", "").want(202)
		r.do("POST", again, "").want(201)
		r.do("POST", again, "").want(403).says("latest attempt")
		r.do("GET", run+"/jobs", "").want(200).says(`"run_attempt":4`).says(`"status":"queued"`)
		r.do("POST", run+"/cancel", "").want(202)

		r.do("GET", runner, "").want(404) // ephemeral: gone with its job
		r.do("DELETE", runner, "").want(404)
		idle := r.mint(scope, "two", "zoomies")
		r.do("DELETE", fmt.Sprintf("%s/actions/runners/%d", scope, idle.id), "").want(204)
	}
	r.do("GET", "/repos/acme/app/actions/runs/1", "").want(404)
	r.do("GET", "/repos/acme/app/actions/runs/1/jobs", "").want(404)
	r.do("GET", "/repos/acme/app/actions/jobs/1", "").want(404)
	r.do("POST", "/repos/acme/app/actions/runs/1/cancel", "").want(404)
	r.do("POST", "/repos/acme/app/actions/jobs/1/rerun", "").want(404)
	r.do("GET", "/repos/acme/app/actions/runs/9999999999999999999999", "").want(404)

	seen := r.Stats().Requests
	for _, rt := range routes {
		if seen[rt.pattern] == 0 {
			t.Errorf("%s was never asked", rt.pattern)
		}
	}
}

func TestBadRegistrationsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("l", i)
	}
	for name, tt := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"not JSON":       {`{`, 400, "Problems parsing JSON"},
		"nothing":        {`{}`, 422, `\"name\", \"runner_group_id\", \"labels\" weren't supplied`},
		"no group":       {`{"name":"a","labels":["x"]}`, 422, `\"runner_group_id\" wasn't supplied`},
		"no labels":      {`{"name":"a","runner_group_id":1,"labels":[]}`, 422, "number of labels"},
		"too many":       {jit("a", many...), 422, "number of labels"},
		"an empty label": {jit("a", " "), 422, "invalid label"},
		"an empty name":  {jit("", "x"), 422, "not valid"},
		"a long name":    {jit(strings.Repeat("a", 65), "x"), 422, "not valid"},
		"a path as name": {jit("a/b", "x"), 422, "not valid"},
		"unknown group":  {`{"name":"a","runner_group_id":9,"labels":["x"]}`, 404, "Not Found"},
	} {
		r.do("POST", "/orgs/acme/actions/runners/generate-jitconfig", tt.body).want(tt.status).says(tt.says)
		if n := len(r.Runners()); n != 0 {
			t.Fatalf("%s: %d registrations", name, n)
		}
	}
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	other := r.AddInstallation("rival", "Organization")
	r.AddRepository(other, "rival/secret")
	person := r.AddInstallation("octocat", "User")
	r.AddRepository(person, "octocat/hello")
	rival := r.mintToken(other)

	for _, path := range []string{"/orgs/acme/actions/runners", "/installation/repositories", "/repos/acme/app/actions/runs"} {
		r.as("", "GET", path, "").want(401).says("Requires authentication")
		r.as("ghs_wrong", "GET", path, "").want(401).says("Bad credentials")
		r.as(r.appJWT(nil), "GET", path, "").want(401)
	}
	r.as(rival, "GET", "/orgs/acme/actions/runners", "").want(403).says("Resource not accessible by integration")
	r.as(rival, "GET", "/repos/acme/app/actions/runs", "").want(404)
	r.as(rival, "POST", "/orgs/acme/actions/runners/generate-jitconfig", jit("a", "x")).want(403)
	r.as(rival, "GET", "/repos/rival/secret/actions/runs", "").want(200)
	r.as(r.mintToken(person), "GET", "/orgs/octocat/actions/runners", "").want(404) // a user is no organisation
	r.as(rival, "GET", "/orgs/nobody/actions/runners", "").want(404)

	// A repository's runner is not the organisation's.
	f := r.mint("/repos/acme/app", "one", "x")
	r.do("GET", fmt.Sprintf("/orgs/acme/actions/runners/%d", f.id), "").want(404)

	r.RevokeTokens()
	r.do("GET", "/orgs/acme/actions/runners", "").want(401)
	r.token = r.mintToken(r.inst)
	r.do("GET", "/orgs/acme/actions/runners", "").want(200)
	r.RemoveInstallation(r.inst)
	r.do("GET", "/orgs/acme/actions/runners", "").want(401)
	r.as(r.appJWT(nil), "POST", fmt.Sprintf("/app/installations/%d/access_tokens", r.inst), "").want(404)
}

func TestInstallationTokensExpire(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRig(t, Options{Now: c.now})
	r.do("GET", "/installation/repositories", "").want(200)
	c.add(59 * time.Minute)
	r.do("GET", "/installation/repositories", "").want(200)
	c.add(time.Minute)
	r.do("GET", "/installation/repositories", "").want(401)
}

func TestAppTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	now := r.now()
	for name, change := range map[string]func(jwt.MapClaims){
		"expired":            func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Second).Unix() },
		"lives too long":     func(c jwt.MapClaims) { c["exp"] = now.Add(11 * time.Minute).Unix() },
		"never expires":      func(c jwt.MapClaims) { delete(c, "exp") },
		"from the future":    func(c jwt.MapClaims) { c["iat"] = now.Add(5 * time.Minute).Unix() },
		"without iat":        func(c jwt.MapClaims) { delete(c, "iat") },
		"of another App":     func(c jwt.MapClaims) { c["iss"] = "7" },
		"without any issuer": func(c jwt.MapClaims) { delete(c, "iss") },
	} {
		if g := r.as(r.appJWT(change), "GET", "/app", ""); g.status != 401 {
			t.Errorf("a token %s is answered %d", name, g.status)
		}
	}
	r.as(r.appJWT(func(c jwt.MapClaims) { c["iss"] = r.App().ID }), "GET", "/app", "").want(200) // a number will do
	r.as(r.appJWT(func(c jwt.MapClaims) { c["iss"] = r.app.clientID }), "GET", "/app", "").want(200)

	forged, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": fmt.Sprint(r.App().ID), "exp": now.Add(time.Minute).Unix()}).
		SignedString([]byte("public"))
	if err != nil {
		t.Fatal(err)
	}
	r.as(forged, "GET", "/app", "").want(401)
	r.as(r.token, "GET", "/app", "").want(401) // an installation is not the App
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for i := range 7 {
		r.mint("/orgs/acme", fmt.Sprintf("runner-%d", i), "x")
	}
	var names []string
	path := "/orgs/acme/actions/runners?per_page=3"
	pages := 0
	for path != "" {
		g := r.do("GET", path, "").want(200)
		var l runnerList
		g.into(&l)
		if l.Total != 7 {
			t.Errorf("total %d", l.Total)
		}
		for _, x := range l.Runners {
			names = append(names, x.Name)
		}
		pages++
		path = ""
		for link := range strings.SplitSeq(g.header.Get("Link"), ", ") {
			if target, ok := strings.CutSuffix(link, `>; rel="next"`); ok {
				path = strings.TrimPrefix(target, "<"+r.URL())
			}
		}
	}
	slices.Sort(names)
	if pages != 3 || len(slices.Compact(names)) != 7 {
		t.Errorf("%d pages gave %v", pages, names)
	}
	if l := r.list("/orgs/acme", "?name=RUNNER-3"); l.Total != 1 || l.Runners[0].Name != "runner-3" {
		t.Errorf("by name: %+v", l)
	}
	if g := r.do("GET", "/orgs/acme/actions/runners?per_page=3&page=99", "").want(200); !strings.Contains(g.header.Get("Link"), `rel="prev"`) {
		t.Errorf("beyond the end: %s, Link %q", g.body, g.header.Get("Link"))
	}
}

func TestReadOnlyLabelsAreImplied(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.mint("/orgs/acme", "one", "SELF-HOSTED", "zoomies", "Zoomies")
	var labels []string
	for _, l := range r.list("/orgs/acme", "").Runners[0].Labels {
		labels = append(labels, l.Name+" "+l.Type)
	}
	want := []string{"self-hosted read-only", "Linux read-only", "X64 read-only", "zoomies custom"}
	if !slices.Equal(labels, want) {
		t.Errorf("labels %q, want %q", labels, want)
	}
}

func TestHeadersOnEveryAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for _, g := range []got{
		r.do("GET", "/rate_limit", ""), r.do("GET", "/nothing", ""), r.as("", "GET", "/installation/repositories", ""),
		r.do("POST", "/orgs/acme/actions/runners/generate-jitconfig", jit("a", "x")),
	} {
		for _, h := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Used", "X-Ratelimit-Resource", "X-Github-Request-Id"} {
			if g.header.Get(h) == "" {
				t.Errorf("%s: no %s", g.what, http.CanonicalHeaderKey(h))
			}
		}
	}
}
