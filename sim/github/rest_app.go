package github

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// routes is the whole REST API of this GitHub, written as in GitHub's own description.
var routes = []route{
	{"GET /app", theApp, resourceCore, false, (*Server).getApp},
	{"GET /app/hook/config", theApp, resourceCore, false, (*Server).getHookConfig},
	{"GET /app/hook/deliveries", theApp, resourceCore, false, (*Server).listHookDeliveries},
	{"POST /app-manifests/{code}/conversions", anybody, resourceCore, false, (*Server).convertManifest},
	{"GET /app/installations", theApp, resourceCore, false, (*Server).listInstallations},
	{"GET /app/installations/{installation_id}", theApp, resourceCore, false, (*Server).getInstallation},
	{"POST /app/installations/{installation_id}/access_tokens", theApp, resourceCore, false, (*Server).createToken},
	{"GET /installation/repositories", anInstallation, resourceCore, false, (*Server).listRepositories},
	{"GET /rate_limit", anybody, resourceCore, true, (*Server).rateLimit},

	{"POST /orgs/{org}/actions/runners/generate-jitconfig", anInstallation, resourceRegistration, false, (*Server).generateJIT},
	{"POST /repos/{owner}/{repo}/actions/runners/generate-jitconfig", anInstallation, resourceRegistration, false, (*Server).generateJIT},
	{"POST /orgs/{org}/actions/runners/registration-token", anInstallation, resourceRegistration, false, (*Server).registrationToken},
	{"POST /repos/{owner}/{repo}/actions/runners/registration-token", anInstallation, resourceRegistration, false, (*Server).registrationToken},
	{"GET /orgs/{org}/actions/runners", anInstallation, resourceCore, false, (*Server).listRunners},
	{"GET /repos/{owner}/{repo}/actions/runners", anInstallation, resourceCore, false, (*Server).listRunners},
	{"GET /orgs/{org}/actions/runners/{runner_id}", anInstallation, resourceCore, false, (*Server).getRunner},
	{"GET /repos/{owner}/{repo}/actions/runners/{runner_id}", anInstallation, resourceCore, false, (*Server).getRunner},
	{"DELETE /orgs/{org}/actions/runners/{runner_id}", anInstallation, resourceCore, false, (*Server).deleteRunner},
	{"DELETE /repos/{owner}/{repo}/actions/runners/{runner_id}", anInstallation, resourceCore, false, (*Server).deleteRunner},

	{"GET /repos/{owner}/{repo}/actions/runs", anInstallation, resourceCore, false, (*Server).listRuns},
	{"GET /repos/{owner}/{repo}/actions/runs/{run_id}", anInstallation, resourceCore, false, (*Server).getRun},
	{"GET /repos/{owner}/{repo}/actions/runs/{run_id}/jobs", anInstallation, resourceCore, false, (*Server).listRunJobs},
	{"POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel", anInstallation, resourceCore, false, (*Server).cancelRun},
	{"POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun", anInstallation, resourceCore, false, (*Server).rerun},
	{"POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs", anInstallation, resourceCore, false, (*Server).rerunFailed},
	{"GET /repos/{owner}/{repo}/actions/jobs/{job_id}", anInstallation, resourceCore, false, (*Server).getJob},
	{"POST /repos/{owner}/{repo}/actions/jobs/{job_id}/rerun", anInstallation, resourceCore, false, (*Server).rerunJob},
}

var (
	appPermissions = map[string]string{
		"actions": "write", "administration": "write", "metadata": "read", "organization_self_hosted_runners": "write",
	}
	appEvents = []string{"workflow_job"}
)

const (
	appName = "Zoomies"
	appSlug = "zoomies"
)

func (s *Server) getApp(*call) answer {
	body := s.appJSON()
	body["installations_count"] = len(s.world.installations)
	return answer{status: http.StatusOK, body: body}
}

func (s *Server) appJSON() map[string]any {
	owner := s.app.owner
	for _, in := range s.world.installations {
		if s.app.owner == nil && (owner == nil || in.account.id < owner.id) {
			owner = in.account
		}
	}
	if owner == nil {
		owner = s.account("octocat", false)
	}
	return map[string]any{
		"id": s.app.id, "slug": s.app.slug, "client_id": s.app.clientID, "node_id": node("App", s.app.id), "owner": s.user(owner),
		"name": s.app.name, "description": "Runs jobs on machines of our own", "external_url": "https://example.com",
		"html_url": s.base + "/apps/" + s.app.slug, "created_at": stamp(time.Unix(1700000000, 0)), "updated_at": stamp(time.Unix(1700000000, 0)),
		"permissions": s.app.permissions, "events": s.app.events,
	}
}

// getHookConfig shows the App's webhook; one without an address has none.
func (s *Server) getHookConfig(*call) answer {
	h := s.hooks.all[0]
	if h.url == "" {
		return notFound()
	}
	return answer{status: http.StatusOK, body: map[string]any{"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": h.url}}
}

// listHookDeliveries lists what the App's webhook sent, the newest first. The real one pages with a cursor; this one gives one page.
func (s *Server) listHookDeliveries(c *call) answer {
	per := 30
	if n, err := strconv.Atoi(c.r.URL.Query().Get("per_page")); err == nil && n > 0 {
		per = min(n, 100)
	}
	out := []map[string]any{}
	for i, d := range slices.Backward(s.hooks.log) {
		if d.HookID != s.hooks.all[0].id || d.Attempts == 0 {
			continue
		}
		if len(out) == per {
			break
		}
		status, action := "OK", any(nil)
		if d.Outcome != "delivered" {
			status = d.Error
		}
		if d.Action != "" {
			action = d.Action
		}
		one := map[string]any{
			"id": i + 1, "guid": d.ID, "delivered_at": stamp(d.CreatedAt), "redelivery": d.Attempts > 1, "duration": 0.1,
			"status": status, "status_code": d.Status, "event": d.Event, "action": action, "installation_id": nil, "repository_id": nil,
		}
		if j := s.world.jobs[d.JobID]; j != nil && j.run.repo.installation != nil {
			one["installation_id"], one["repository_id"] = j.run.repo.installation.id, j.run.repo.id
		}
		out = append(out, one)
	}
	return answer{status: http.StatusOK, body: out}
}

func (s *Server) installationJSON(in *installation) map[string]any {
	kind := "User"
	if in.account.org {
		kind = "Organization"
	}
	id := strconv.FormatInt(in.id, 10)
	permissions, events := in.granted(s)
	var by any
	if !in.suspended.IsZero() {
		by = s.user(s.account("octocat", false))
	}
	return map[string]any{
		"id": in.id, "account": s.user(in.account), "repository_selection": "selected",
		"access_tokens_url": s.URL() + "/app/installations/" + id + "/access_tokens",
		"repositories_url":  s.URL() + "/installation/repositories",
		"html_url":          s.base + "/organizations/" + in.account.login + "/settings/installations/" + id,
		"app_id":            s.app.id, "app_slug": s.app.slug, "target_id": in.account.id, "target_type": kind,
		"permissions": permissions, "events": events, "created_at": stamp(in.created), "updated_at": stamp(in.created),
		"single_file_name": nil, "has_multiple_single_files": false, "single_file_paths": []string{}, "suspended_by": by, "suspended_at": stampOr(in.suspended),
	}
}

// granted is what the account has granted the App.
func (in *installation) granted(s *Server) (map[string]string, []string) {
	permissions, events := in.permissions, in.events
	if permissions == nil {
		permissions = s.app.permissions
	}
	if events == nil {
		events = s.app.events
	}
	return permissions, events
}

func (s *Server) listInstallations(c *call) answer {
	var all []*installation
	for _, in := range s.world.installations {
		all = append(all, in)
	}
	slices.SortFunc(all, func(a, b *installation) int { return int(a.id - b.id) })
	part, h := page(c, s.base+restRoot, all)
	out := []map[string]any{}
	for _, in := range part {
		out = append(out, s.installationJSON(in))
	}
	return answer{http.StatusOK, out, h}
}

// pathID is a number of the path, 0 if it is none.
func pathID(c *call, name string) int64 {
	id, err := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

func (s *Server) getInstallation(c *call) answer {
	in := s.world.installations[pathID(c, "installation_id")]
	if in == nil {
		return notFound()
	}
	return answer{status: http.StatusOK, body: s.installationJSON(in)}
}

func (s *Server) createToken(c *call) answer {
	in := s.world.installations[pathID(c, "installation_id")]
	if in == nil {
		return notFound()
	}
	if !in.suspended.IsZero() {
		return problem(http.StatusForbidden, "This installation has been suspended", docREST)
	}
	permissions, _ := in.granted(s)
	token, expires := s.token("ghs_", 36), c.now.Add(tokenLife)
	s.world.tokens[token] = &installToken{in, expires}
	return answer{status: http.StatusCreated, body: map[string]any{
		"token": token, "expires_at": stamp(expires), "permissions": permissions, "repository_selection": "selected",
	}}
}

func (s *Server) listRepositories(c *call) answer {
	part, h := page(c, s.base+restRoot, c.inst.repos)
	out := []map[string]any{}
	for _, r := range part {
		one := s.fullRepository(r)
		delete(one, "custom_properties") // webhooks and runs have it, this list has not
		out = append(out, one)
	}
	return answer{http.StatusOK, map[string]any{"total_count": len(c.inst.repos), "repository_selection": "selected", "repositories": out}, h}
}

func (s *Server) rateLimit(c *call) answer {
	var id int64
	if c.inst != nil {
		id = c.inst.id
	}
	one := func(limit, used int, reset time.Time) map[string]any {
		return map[string]any{"limit": limit, "used": used, "remaining": limit - used, "reset": reset.Unix()}
	}
	of := func(resource string) map[string]any {
		u := s.budget(bucket{id, resource})
		return one(u.Limit, u.Used, u.Reset)
	}
	return answer{status: http.StatusOK, body: map[string]any{
		"rate": of(resourceCore),
		"resources": map[string]any{
			resourceCore: of(resourceCore), resourceRegistration: of(resourceRegistration),
			"search": one(30, 0, c.now.Add(time.Minute)), "graphql": one(5000, 0, c.now.Add(time.Hour)),
		},
	}}
}

// scope finds whose runners or repository the path means, or refuses: 404 for what the token cannot see, 403 for what it may not.
func (s *Server) scope(c *call) (org *account, repo *repository, refused *answer) {
	if login := c.r.PathValue("org"); login != "" {
		acc := s.world.accounts[strings.ToLower(login)]
		switch {
		case acc == nil || !acc.org:
			a := notFound()
			return nil, nil, &a
		case acc != c.inst.account:
			a := problem(http.StatusForbidden, "Resource not accessible by integration", docREST)
			return nil, nil, &a
		}
		return acc, nil, nil
	}
	r := s.world.repositories[strings.ToLower(c.r.PathValue("owner")+"/"+c.r.PathValue("repo"))]
	if r == nil || r.installation != c.inst {
		a := notFound()
		return nil, nil, &a
	}
	return nil, r, nil
}
