package auth

import "net/http"

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	put    = http.MethodPut
	remove = http.MethodDelete
)

// Guards is the table of every route that the controller serves.
var Guards = []Guard{
	// Outside the API.
	{ID: "health", Method: get, Path: "/healthz", Access: Open, Summary: "Say that the process runs"},
	{ID: "ready", Method: get, Path: "/readyz", Access: Open, Summary: "Say whether the fleet can be scheduled"},
	{ID: "metrics", Method: get, Path: "/metrics", Access: ByRole, Role: Viewer, Area: AreaMetrics, Summary: "Show the metrics in Prometheus' format"},
	{ID: "github-webhook", Method: post, Path: "/webhooks/github", Access: Proven, Summary: "Take a delivery of GitHub's, whose signature is verified"},
	{ID: "agent-api", Path: "/api/v1/agent/*", Access: Proven, Summary: "Serve the agents, each with its host's token"},
	{ID: "openapi", Method: get, Path: "/api/v1/openapi.json", Access: Open, Summary: "Show this API's own description"},
	{ID: "openapi-yaml", Method: get, Path: "/api/v1/openapi.yaml", Access: Open, Summary: "Show this API's own description in YAML"},

	// Signing in.
	{ID: "get-setup", Method: get, Path: "/api/v1/setup", Access: Open, Summary: "Say whether the fleet has been claimed"},
	{ID: "claim-fleet", Method: post, Path: "/api/v1/setup/claim", Access: Proven, Summary: "Make the first user, with the setup token"},
	{ID: "sign-in", Method: post, Path: "/api/v1/session", Access: Proven, Summary: "Sign in with a name and a password"},
	{ID: "get-session", Method: get, Path: "/api/v1/session", Access: AnyUser, Area: AreaAccess, Summary: "Say who is asking, and what they may do"},
	{ID: "sign-out", Method: remove, Path: "/api/v1/session", Access: AnyUser, Area: AreaAccess, Summary: "End this session"},
	{ID: "change-password", Method: put, Path: "/api/v1/session/password", Access: AnyUser, Area: AreaAccess, Summary: "Change one's own password"},

	// Who may do what.
	{ID: "list-users", Method: get, Path: "/api/v1/users", Access: ByRole, Role: Admin, Area: AreaAccess, Object: Listed, Summary: "List users"},
	{ID: "create-user", Method: post, Path: "/api/v1/users", Access: ByRole, Role: Admin, Area: AreaAccess, Object: InBody, Creates: true, Summary: "Make a user"},
	{ID: "get-user", Method: get, Path: "/api/v1/users/{id}", Access: ByRole, Role: Admin, Area: AreaAccess, Object: Listed, Summary: "Show a user"},
	{ID: "update-user", Method: patch, Path: "/api/v1/users/{id}", Access: ByRole, Role: Admin, Area: AreaAccess, Object: Listed, Summary: "Change a user"},
	{ID: "delete-user", Method: remove, Path: "/api/v1/users/{id}", Access: ByRole, Role: Admin, Area: AreaAccess, Object: Listed, Summary: "Delete a user with their tokens and sessions"},
	{ID: "list-sessions", Method: get, Path: "/api/v1/users/{id}/sessions", Access: AnyUser, Area: AreaAccess, Summary: "List one's own sessions, or for an admin those of a user"},
	{ID: "end-sessions", Method: remove, Path: "/api/v1/users/{id}/sessions", Access: AnyUser, Area: AreaAccess, Summary: "End all of one's own sessions, or for an admin all of a user"},
	{ID: "list-tokens", Method: get, Path: "/api/v1/tokens", Access: AnyUser, Area: AreaAccess, Summary: "List one's own API tokens, and everybody's for an admin"},
	{ID: "create-token", Method: post, Path: "/api/v1/tokens", Access: AnyUser, Area: AreaAccess, Creates: true, Summary: "Make an API token that can do no more than oneself"},
	{ID: "delete-token", Method: remove, Path: "/api/v1/tokens/{id}", Access: AnyUser, Area: AreaAccess, Summary: "Revoke an API token"},
	{ID: "list-join-tokens", Method: get, Path: "/api/v1/join-tokens", Access: ByRole, Role: Admin, Area: AreaHosts, Summary: "List join tokens"},
	{ID: "create-join-token", Method: post, Path: "/api/v1/join-tokens", Access: ByRole, Role: Admin, Area: AreaHosts, Creates: true, Summary: "Make a single-use token with which one host joins"},
	{ID: "delete-join-token", Method: remove, Path: "/api/v1/join-tokens/{id}", Access: ByRole, Role: Admin, Area: AreaHosts, Summary: "Revoke a join token"},

	// GitHub.
	{ID: "list-installations", Method: get, Path: "/api/v1/installations", Access: ByRole, Role: Viewer, Area: AreaInstallations, Object: Listed, Summary: "List installations"},
	{ID: "create-installation", Method: post, Path: "/api/v1/installations", Access: ByRole, Role: Admin, Area: AreaInstallations, Creates: true, Summary: "Add an installation of a GitHub App by its key"},
	{ID: "get-installation", Method: get, Path: "/api/v1/installations/{id}", Access: ByRole, Role: Viewer, Area: AreaInstallations, Object: AnInstallation, Summary: "Show an installation"},
	{ID: "update-installation", Method: patch, Path: "/api/v1/installations/{id}", Access: ByRole, Role: Admin, Area: AreaInstallations, Object: AnInstallation, Summary: "Change an installation, its key or its webhook secret"},
	{ID: "delete-installation", Method: remove, Path: "/api/v1/installations/{id}", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "Forget an installation that has no pools"},
	{ID: "check-installation", Method: post, Path: "/api/v1/installations/{id}/check", Access: ByRole, Role: Operator, Area: AreaInstallations, Object: AnInstallation, Summary: "Ask GitHub whether the key works and the permissions suffice"},
	{ID: "list-apps", Method: get, Path: "/api/v1/github/apps", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "List the GitHub Apps made through the manifest flow"},
	{ID: "delete-app", Method: remove, Path: "/api/v1/github/apps/{id}", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "Forget a GitHub App"},
	{ID: "start-manifest", Method: post, Path: "/api/v1/github/manifest", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "Begin to make a GitHub App through the manifest flow"},
	{ID: "finish-manifest", Method: post, Path: "/api/v1/github/manifest/{state}", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "Take GitHub's code for the App that was made, where GitHub cannot send the browser back"},
	{ID: "adopt-installations", Method: post, Path: "/api/v1/github/apps/{id}/adopt", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "Take over every installation that a GitHub App has by now"},
	{ID: "manifest-form", Method: get, Path: "/setup/github/{state}", Access: Proven, Summary: "Send the browser to GitHub with the manifest"},
	{ID: "manifest-created", Method: get, Path: "/setup/github/{state}/created", Access: Proven, Summary: "Take GitHub's code for the App that was made"},
	{ID: "manifest-installed", Method: get, Path: "/setup/github/{state}/installed", Access: Proven, Summary: "Take note of where the App was installed"},

	// Pools.
	{ID: "list-pools", Method: get, Path: "/api/v1/pools", Access: ByRole, Role: Viewer, Area: AreaPools, Object: Listed, Summary: "List pools"},
	{ID: "create-pool", Method: post, Path: "/api/v1/pools", Access: ByRole, Role: Admin, Area: AreaPools, Object: InBody, Creates: true, Summary: "Make a pool"},
	{ID: "get-pool", Method: get, Path: "/api/v1/pools/{id}", Access: ByRole, Role: Viewer, Area: AreaPools, Object: APool, Summary: "Show a pool"},
	{ID: "update-pool", Method: patch, Path: "/api/v1/pools/{id}", Access: ByRole, Role: Admin, Area: AreaPools, Object: APool, Summary: "Change a pool"},
	{ID: "delete-pool", Method: remove, Path: "/api/v1/pools/{id}", Access: ByRole, Role: Admin, Area: AreaPools, Object: APool, Summary: "Delete a pool that has no runners"},
	{ID: "pause-pool", Method: put, Path: "/api/v1/pools/{id}/pause", Access: ByRole, Role: Operator, Area: AreaPools, Object: APool, Summary: "Start no runner for a pool until it is resumed"},
	{ID: "resume-pool", Method: remove, Path: "/api/v1/pools/{id}/pause", Access: ByRole, Role: Operator, Area: AreaPools, Object: APool, Summary: "Let a paused pool start runners again"},
	{ID: "prewarm-pool", Method: post, Path: "/api/v1/pools/{id}/prewarm", Access: ByRole, Role: Operator, Area: AreaPools, Object: APool, Summary: "Have the hosts of a pool fetch its image now"},

	// Hosts.
	{ID: "list-hosts", Method: get, Path: "/api/v1/hosts", Access: ByRole, Role: Viewer, Area: AreaHosts, Summary: "List hosts"},
	{ID: "get-host", Method: get, Path: "/api/v1/hosts/{id}", Access: ByRole, Role: Viewer, Area: AreaHosts, Summary: "Show a host"},
	{ID: "cordon-host", Method: put, Path: "/api/v1/hosts/{id}/cordon", Access: ByRole, Role: Operator, Area: AreaHosts, Summary: "Place no new runner on a host"},
	{ID: "uncordon-host", Method: remove, Path: "/api/v1/hosts/{id}/cordon", Access: ByRole, Role: Operator, Area: AreaHosts, Summary: "Place runners on a host again, and end its drain"},
	{ID: "drain-host", Method: put, Path: "/api/v1/hosts/{id}/drain", Access: ByRole, Role: Operator, Area: AreaHosts, Summary: "Empty a host: jobs get five minutes to finish"},
	{ID: "delete-host", Method: remove, Path: "/api/v1/hosts/{id}", Access: ByRole, Role: Admin, Area: AreaHosts, Summary: "Forget a host that has no runners"},

	// Connections to providers that are set up from the provider's side.
	{ID: "list-provider-setups", Method: get, Path: "/api/v1/provider-setups", Access: ByRole, Role: Admin, Area: AreaMachines, Summary: "List connections to providers that are being set up"},
	{ID: "create-provider-setup", Method: post, Path: "/api/v1/provider-setups", Access: ByRole, Role: Admin, Area: AreaMachines, Creates: true, Summary: "Make the command that connects a provider the controller cannot reach"},
	{ID: "complete-provider-setup", Method: post, Path: "/api/v1/provider-setups/completion", Access: Proven, Summary: "Take the connection from the command, whose capability is good once"},
	{ID: "get-provider-setup", Method: get, Path: "/api/v1/provider-setups/{id}", Access: ByRole, Role: Admin, Area: AreaMachines, Summary: "Show how far a connection is set up"},
	{ID: "delete-provider-setup", Method: remove, Path: "/api/v1/provider-setups/{id}", Access: ByRole, Role: Admin, Area: AreaMachines, Summary: "Forget a connection that is being set up, and what was posted of it"},

	// Runners.
	{ID: "list-runners", Method: get, Path: "/api/v1/runners", Access: ByRole, Role: Viewer, Area: AreaRunners, Object: Listed, Summary: "List runners"},
	{ID: "get-runner", Method: get, Path: "/api/v1/runners/{id}", Access: ByRole, Role: Viewer, Area: AreaRunners, Object: ARunner, Summary: "Show a runner"},
	{ID: "get-runner-timeline", Method: get, Path: "/api/v1/runners/{id}/timeline", Access: ByRole, Role: Viewer, Area: AreaRunners, Object: ARunner, Summary: "Show when a runner did what"},
	{ID: "stop-runner", Method: remove, Path: "/api/v1/runners/{id}", Access: ByRole, Role: Operator, Area: AreaRunners, Object: ARunner, Summary: "Drain a runner: its job gets five minutes to finish"},
	{ID: "watch-runner-logs", Method: get, Path: "/api/v1/runners/{id}/logs", Access: ByRole, Role: Viewer, Area: AreaRunners, Object: ARunner, Summary: "Follow a runner's output as server-sent events"},

	// Jobs.
	{ID: "list-jobs", Method: get, Path: "/api/v1/jobs", Access: ByRole, Role: Viewer, Area: AreaJobs, Object: Listed, Summary: "List jobs"},
	{ID: "get-job", Method: get, Path: "/api/v1/jobs/{id}", Access: ByRole, Role: Viewer, Area: AreaJobs, Object: AJob, Summary: "Show a job"},
	{ID: "explain-job", Method: get, Path: "/api/v1/jobs/{id}/explanation", Access: ByRole, Role: Viewer, Area: AreaJobs, Object: AJob, Summary: "Say why a job waits, and what would have to change"},
	{ID: "get-job-timeline", Method: get, Path: "/api/v1/jobs/{id}/timeline", Access: ByRole, Role: Viewer, Area: AreaJobs, Object: AJob, Summary: "Show when a job did what, and on what"},
	{ID: "rerun-job", Method: post, Path: "/api/v1/jobs/{id}/rerun", Access: ByRole, Role: Operator, Area: AreaJobs, Object: AJob, Summary: "Have GitHub run a completed job again"},
	{ID: "cancel-job", Method: post, Path: "/api/v1/jobs/{id}/cancel", Access: ByRole, Role: Operator, Area: AreaJobs, Object: AJob, Summary: "Have GitHub cancel the workflow run of a job"},

	// The fleet.
	{ID: "get-status", Method: get, Path: "/api/v1/status", Access: ByRole, Role: Viewer, Area: AreaFleet, Object: Listed, Summary: "Say in one answer whether the fleet is all right"},
	{ID: "list-problems", Method: get, Path: "/api/v1/problems", Access: ByRole, Role: Viewer, Area: AreaFleet, Object: Listed, Summary: "List what is wrong now, and what to do about it"},
	{ID: "dismiss-problem", Method: put, Path: "/api/v1/problems/{code}/dismissal", Access: ByRole, Role: Viewer, Area: AreaFleet, Object: Listed, Summary: "Hide a problem from oneself for as long as it stands"},
	{ID: "restore-problem", Method: remove, Path: "/api/v1/problems/{code}/dismissal", Access: ByRole, Role: Viewer, Area: AreaFleet, Object: Listed, Summary: "Show a hidden problem again"},
	{ID: "watch-events", Method: get, Path: "/api/v1/events", Access: ByRole, Role: Viewer, Area: AreaFleet, Object: Listed, Summary: "Follow every change as server-sent events"},
	{ID: "get-queue", Method: get, Path: "/api/v1/queue", Access: ByRole, Role: Viewer, Area: AreaJobs, Summary: "Say whether the fleet starts runners, and how much waits"},
	{ID: "pause-queue", Method: put, Path: "/api/v1/queue/pause", Access: ByRole, Role: Operator, Area: AreaJobs, Summary: "Start no runner in the whole fleet until the queue is resumed"},
	{ID: "resume-queue", Method: remove, Path: "/api/v1/queue/pause", Access: ByRole, Role: Operator, Area: AreaJobs, Summary: "Let the fleet start runners again"},
	{ID: "list-settings", Method: get, Path: "/api/v1/settings", Access: ByRole, Role: Admin, Area: AreaSettings, Summary: "List settings, with where each value comes from"},
	{ID: "get-setting", Method: get, Path: "/api/v1/settings/{key}", Access: ByRole, Role: Admin, Area: AreaSettings, Summary: "Show a setting"},
	{ID: "set-setting", Method: put, Path: "/api/v1/settings/{key}", Access: ByRole, Role: Platform, Area: AreaSettings, Summary: "Write a setting to the fleet's database"},
	{ID: "reset-setting", Method: remove, Path: "/api/v1/settings/{key}", Access: ByRole, Role: Platform, Area: AreaSettings, Summary: "Take a setting out of the fleet's database, so that its other layers count"},
	{ID: "list-audit", Method: get, Path: "/api/v1/audit", Access: ByRole, Role: Admin, Area: AreaAudit, Summary: "Read the audit log, newest first"},
	{ID: "verify-audit", Method: get, Path: "/api/v1/audit/verification", Access: ByRole, Role: Admin, Area: AreaAudit, Summary: "Check that no row of the audit log is missing or edited"},
	{ID: "list-deliveries", Method: get, Path: "/api/v1/deliveries", Access: ByRole, Role: Admin, Area: AreaInstallations, Summary: "List what GitHub's webhooks delivered, newest first"},
}
