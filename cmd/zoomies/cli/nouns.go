package cli

// The kinds of object. What a table shows of each is here; what the API says of it is in the answer.
var (
	pool = &noun{"pool", "pool_", "list-pools", "name", []column{
		{"NAME", "name"}, {"INSTALLATION", "installation_id"}, {"REPOSITORY", "repository"}, {"LABELS", "labels"}, {"BACKEND", "backend"},
		{"MIN", "min"}, {"MAX", "max"}, {"ENABLED", "enabled"}, {"PAUSED", "paused"}, {"ID", "id"},
	}}
	host = &noun{"host", "hst_", "list-hosts", "name", []column{
		{"NAME", "name"}, {"HEALTH", "health"}, {"USED", "used_slots"}, {"CAPACITY", "capacity"}, {"CORDONED", "cordoned"}, {"DRAINING", "draining"},
		{"VERSION", "agent_version"}, {"SEEN", "last_heartbeat_at"}, {"ID", "id"},
	}}
	runner = &noun{"runner", "run_", "list-runners", "name", []column{
		{"NAME", "name"}, {"STATE", "state"}, {"POOL", "pool_id"}, {"HOST", "host_id"}, {"JOB", "job_id"}, {"CREATED", "created_at"}, {"ID", "id"},
	}}
	job = &noun{"job", "job_", "list-jobs", "", []column{
		{"ID", "id"}, {"NAME", "name"}, {"REPOSITORY", "repository"}, {"STATE", "state"}, {"CONCLUSION", "conclusion"}, {"LABELS", "labels"},
		{"RUNNER", "runner_id"}, {"QUEUED", "queued_at"},
	}}
	installation = &noun{"installation", "ins_", "list-installations", "name", []column{
		{"NAME", "name"}, {"ACCOUNT", "account"}, {"APP", "app_id"}, {"INSTALLATION", "installation_id"}, {"GITHUB", "base_url"}, {"ID", "id"},
	}}
	githubApp = &noun{"app", "app_", "list-apps", "name", []column{
		{"NAME", "name"}, {"OWNER", "owner"}, {"APP", "app_id"}, {"GITHUB", "base_url"}, {"CREATED", "created_at"}, {"ID", "id"},
	}}
	delivery = &noun{"delivery", "", "list-deliveries", "", []column{
		{"ID", "id"}, {"EVENT", "event"}, {"ACTION", "action"}, {"OUTCOME", "outcome"}, {"INSTALLATION", "installation_id"}, {"RECEIVED", "received_at"},
	}}
	user = &noun{"user", "usr_", "list-users", "name", []column{
		{"NAME", "name"}, {"GRANTS", "grants"}, {"SOURCE", "source"}, {"DISABLED", "disabled"}, {"SIGNED IN", "last_sign_in_at"}, {"ID", "id"},
	}}
	session = &noun{"session", "ses_", "list-sessions", "", []column{
		{"ID", "id"}, {"ADDRESS", "address"}, {"AGENT", "agent"}, {"CREATED", "created_at"}, {"SEEN", "last_seen_at"}, {"EXPIRES", "expires_at"},
	}}
	token = &noun{"token", "tok_", "list-tokens", "name", []column{
		{"NAME", "name"}, {"USER", "user_name"}, {"GRANTS", "grants"}, {"SCOPES", "scopes"}, {"USED", "last_used_at"}, {"EXPIRES", "expires_at"}, {"ID", "id"},
	}}
	joinToken = &noun{"join token", "", "list-join-tokens", "", []column{
		{"ID", "id"}, {"HOST", "host_name"}, {"STATE", "state"}, {"CREATED", "created_at"}, {"EXPIRES", "expires_at"},
	}}
	setting = &noun{"setting", "", "list-settings", "key", []column{
		{"KEY", "key"}, {"VALUE", "value"}, {"FROM", "source"}, {"DEFAULT", "default"}, {"EFFECT", "effect"},
	}}
	auditRow = &noun{"audit row", "", "list-audit", "", []column{
		{"SEQ", "seq"}, {"AT", "at"}, {"ACTOR", "actor_name"}, {"FROM", "address"}, {"ACTION", "action"}, {"OBJECT", "object_kind"}, {"NAME", "object_name"}, {"ID", "object_id"},
	}}
	problem = &noun{"problem", "", "list-problems", "", []column{
		{"SEVERITY", "severity"}, {"CODE", "code"}, {"SUBJECT", "subject.name"}, {"TITLE", "title"}, {"FIX", "fix"}, {"SINCE", "since"},
	}}
)

// nouns lists them.
var nouns = []*noun{pool, host, runner, job, installation, githubApp, delivery, user, session, token, joinToken, setting, auditRow, problem, providerSetup}
