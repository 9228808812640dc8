package github

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// stamp is a time as GitHub writes it: whole seconds, UTC.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// stampOr is null for no time.
func stampOr(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// node is a global node id.
func node(kind string, id int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d", kind, id))
}

func (s *Server) user(a *account) map[string]any {
	kind := "User"
	if a.org {
		kind = "Organization"
	}
	u := s.URL() + "/users/" + a.login
	return map[string]any{
		"login": a.login, "id": a.id, "node_id": node(kind, a.id), "avatar_url": s.base + "/avatars/u/" + strconv.FormatInt(a.id, 10),
		"gravatar_id": "", "url": u, "html_url": s.base + "/" + a.login, "followers_url": u + "/followers",
		"following_url": u + "/following{/other_user}", "gists_url": u + "/gists{/gist_id}", "starred_url": u + "/starred{/owner}{/repo}",
		"subscriptions_url": u + "/subscriptions", "organizations_url": u + "/orgs", "repos_url": u + "/repos",
		"events_url": u + "/events{/privacy}", "received_events_url": u + "/received_events", "type": kind, "site_admin": false,
	}
}

func (s *Server) organization(a *account) map[string]any {
	u := s.URL() + "/orgs/" + a.login
	return map[string]any{
		"login": a.login, "id": a.id, "node_id": node("Organization", a.id), "url": u, "repos_url": u + "/repos", "events_url": u + "/events",
		"hooks_url": u + "/hooks", "issues_url": u + "/issues", "members_url": u + "/members{/member}",
		"public_members_url": u + "/public_members{/member}", "avatar_url": s.base + "/avatars/u/" + strconv.FormatInt(a.id, 10), "description": nil,
	}
}

// repositoryLinks are the addresses that a repository's JSON has, by the suffix that each adds to its own.
var repositoryLinks = map[string]string{
	"forks_url": "/forks", "keys_url": "/keys{/key_id}", "collaborators_url": "/collaborators{/collaborator}", "teams_url": "/teams",
	"hooks_url": "/hooks", "issue_events_url": "/issues/events{/number}", "events_url": "/events", "assignees_url": "/assignees{/user}",
	"branches_url": "/branches{/branch}", "tags_url": "/tags", "blobs_url": "/git/blobs{/sha}", "git_tags_url": "/git/tags{/sha}",
	"git_refs_url": "/git/refs{/sha}", "trees_url": "/git/trees{/sha}", "statuses_url": "/statuses/{sha}", "languages_url": "/languages",
	"stargazers_url": "/stargazers", "contributors_url": "/contributors", "subscribers_url": "/subscribers", "subscription_url": "/subscription",
	"commits_url": "/commits{/sha}", "git_commits_url": "/git/commits{/sha}", "comments_url": "/comments{/number}",
	"issue_comment_url": "/issues/comments{/number}", "contents_url": "/contents/{+path}", "compare_url": "/compare/{base}...{head}",
	"merges_url": "/merges", "archive_url": "/{archive_format}{/ref}", "downloads_url": "/downloads", "issues_url": "/issues{/number}",
	"pulls_url": "/pulls{/number}", "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
	"labels_url": "/labels{/name}", "releases_url": "/releases{/id}", "deployments_url": "/deployments",
}

func (s *Server) repoURL(r *repository) string { return s.URL() + "/repos/" + r.fullName }

func (s *Server) fullRepository(r *repository) map[string]any {
	_, name := r.split()
	u, html := s.repoURL(r), s.base+"/"+r.fullName
	m := map[string]any{
		"id": r.id, "node_id": node("Repository", r.id), "name": name, "full_name": r.fullName, "private": true, "owner": s.user(r.owner),
		"html_url": html, "description": nil, "fork": false, "url": u, "created_at": stamp(r.created), "updated_at": stamp(r.created),
		"pushed_at": stamp(r.created), "git_url": "git://" + s.listener.Addr().String() + "/" + r.fullName + ".git",
		"ssh_url": "git@localhost:" + r.fullName + ".git", "clone_url": html + ".git", "svn_url": html, "homepage": nil, "size": 1,
		"stargazers_count": 0, "watchers_count": 0, "language": nil, "has_issues": true, "has_projects": false, "has_downloads": true,
		"has_wiki": false, "has_pages": false, "has_discussions": false, "forks_count": 0, "mirror_url": nil, "archived": false, "disabled": false,
		"open_issues_count": 0, "license": nil, "allow_forking": false, "is_template": false, "web_commit_signoff_required": false,
		"topics": []string{}, "visibility": "private", "forks": 0, "open_issues": 0, "watchers": 0, "default_branch": "main",
		"custom_properties": map[string]any{},
	}
	for k, suffix := range repositoryLinks {
		m[k] = u + suffix
	}
	return m
}

// jobJSON is a job as the API and the webhooks show it.
func (s *Server) jobJSON(j *job) map[string]any {
	id, u := strconv.FormatInt(j.id, 10), s.repoURL(j.run.repo)
	m := map[string]any{
		"id": j.id, "run_id": j.run.id, "run_attempt": j.attempt, "run_url": u + "/actions/runs/" + strconv.FormatInt(j.run.id, 10),
		"node_id": node("CheckRun", j.id), "head_sha": j.run.sha, "head_branch": "main", "url": u + "/actions/jobs/" + id,
		"html_url": fmt.Sprintf("%s/%s/actions/runs/%d/job/%d", s.base, j.run.repo.fullName, j.run.id, j.id),
		"status":   j.status, "conclusion": nil, "created_at": stamp(j.created), "started_at": stamp(j.created), "completed_at": stampOr(j.completed),
		"name": j.name, "steps": []any{}, "check_run_url": u + "/check-runs/" + id, "labels": j.labels, "workflow_name": j.run.workflow,
		"runner_id": nil, "runner_name": nil, "runner_group_id": nil, "runner_group_name": nil,
	}
	if j.conclusion != "" {
		m["conclusion"] = j.conclusion
	}
	if j.started.IsZero() {
		return m
	}
	m["started_at"] = stamp(j.started)
	m["runner_id"], m["runner_name"], m["runner_group_id"], m["runner_group_name"] = j.runnerID, j.runnerName, j.groupID, defaultGroupName
	m["steps"] = j.stepsJSON()
	return m
}

// stepsJSON shows the steps with GitHub's own "Set up job" before them.
func (j *job) stepsJSON() []any {
	setup := &step{Step: Step{Name: "Set up job"}, status: StatusInProgress, started: j.started}
	if len(j.steps) > 0 && j.steps[0].status != StatusQueued || j.status == StatusCompleted {
		setup.status, setup.conclusion, setup.completed = StatusCompleted, ConclusionSuccess, j.started
	}
	out := []any{}
	for i, st := range append([]*step{setup}, j.steps...) {
		one := map[string]any{
			"name": st.Name, "number": i + 1, "status": st.status, "conclusion": nil,
			"started_at": stampOr(st.started), "completed_at": stampOr(st.completed),
		}
		if st.conclusion != "" {
			one["conclusion"] = st.conclusion
		}
		out = append(out, one)
	}
	return out
}

func (s *Server) runJSON(r *run) map[string]any {
	status, conclusion := r.state()
	id, u := strconv.FormatInt(r.id, 10), s.repoURL(r.repo)
	ru := u + "/actions/runs/" + id
	actor := s.user(s.account("octocat", false))
	repo := s.fullRepository(r.repo)
	m := map[string]any{
		"id": r.id, "name": r.workflow, "node_id": node("WorkflowRun", r.id), "head_branch": "main", "head_sha": r.sha,
		"path": ".github/workflows/" + r.workflow + ".yml", "display_title": r.workflow, "run_number": r.number, "run_attempt": r.attempt,
		"event": "push", "status": status, "conclusion": nil, "workflow_id": r.workflowID, "check_suite_id": r.id, "check_suite_node_id": node("CheckSuite", r.id),
		"url": ru, "html_url": s.base + "/" + r.repo.fullName + "/actions/runs/" + id, "pull_requests": []any{}, "referenced_workflows": []any{},
		"created_at": stamp(r.created), "updated_at": stamp(r.updated), "run_started_at": stamp(r.started), "actor": actor, "triggering_actor": actor,
		"jobs_url": ru + "/jobs", "logs_url": ru + "/logs", "check_suite_url": u + "/check-suites/" + id, "artifacts_url": ru + "/artifacts",
		"cancel_url": ru + "/cancel", "rerun_url": ru + "/rerun", "previous_attempt_url": nil,
		"workflow_url": u + "/actions/workflows/" + strconv.FormatInt(r.workflowID, 10), "repository": repo, "head_repository": repo,
		"head_commit": map[string]any{
			"id": r.sha, "tree_id": r.sha, "message": "Change something", "timestamp": stamp(r.created),
			"author": map[string]any{"name": "Octo Cat", "email": "octocat@example.com"}, "committer": map[string]any{"name": "Octo Cat", "email": "octocat@example.com"},
		},
	}
	if conclusion != "" {
		m["conclusion"] = conclusion
	}
	if r.attempt > 1 {
		m["previous_attempt_url"] = fmt.Sprintf("%s/attempts/%d", ru, r.attempt-1)
	}
	return m
}
