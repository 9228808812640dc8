package cli

import (
	"github.com/spf13/cobra"
)

func usersCommand(a *app) *cobra.Command {
	return a.noun(group("users", "Who may do what",
		a.command(verb{op: "list-users", use: "list", noun: user}),
		a.command(verb{op: "get-user", use: "get", noun: user}),
		a.command(verb{op: "create-user", use: "create", noun: user, takes: []string{"name"},
			example: "  zoomies users create ada --grant admin\n  zoomies users create bob --grant operator@pool/linux"}),
		a.command(verb{op: "update-user", use: "edit", noun: user, docs: "create-user"}),
		a.command(verb{op: "delete-user", use: "delete", noun: user, confirm: "Delete the user %s with their tokens and sessions?", done: "user %s is deleted"}),
		a.command(verb{op: "change-password", use: "change-password", done: "the password is changed"}),
	))
}

func sessionsCommand(a *app) *cobra.Command {
	return a.noun(group("sessions", "Who has signed in",
		a.command(verb{op: "get-session", use: "whoami"}),
		a.command(verb{op: "list-sessions", use: "list", noun: sessionsOfUser}),
		a.command(verb{op: "end-sessions", use: "end", noun: user, confirm: "End all sessions of %s?", done: "%s has to sign in again"}),
	))
}

// sessionsOfUser is named by a user and lists sessions.
var sessionsOfUser = &noun{one: user.one, prefix: user.prefix, list: user.list, name: user.name, cols: session.cols}

func tokensCommand(a *app) *cobra.Command {
	return a.noun(group("tokens", "API tokens",
		a.command(verb{op: "list-tokens", use: "list", noun: token}),
		a.command(verb{op: "create-token", use: "create", noun: token, takes: []string{"name"}, more: "the token is shown this once: keep it somewhere safe"}),
		a.command(verb{op: "delete-token", use: "revoke", noun: token, confirm: "Revoke the token %s?", done: "token %s is revoked"}),
	))
}

func settingsCommand(a *app) *cobra.Command {
	return a.noun(group("settings", "How the controller works",
		a.command(verb{op: "list-settings", use: "list", noun: setting}),
		a.command(verb{op: "get-setting", use: "get", noun: setting}),
		a.command(verb{op: "set-setting", use: "set", noun: setting, takes: []string{"value"}, example: "  zoomies settings set github.poll_interval 2m"}),
		a.command(verb{op: "reset-setting", use: "reset", noun: setting, done: "%s is taken out of the fleet's database"}),
	))
}

func auditCommand(a *app) *cobra.Command {
	return a.noun(group("audit", "Who changed what",
		a.tail(),
		a.command(verb{op: "verify-audit", use: "verify", long: "Check that no row of the audit log is missing or edited. Ends with 1 when one is.", verdict: "ok"}),
	))
}

func problemsCommand(a *app) *cobra.Command {
	return a.noun(group("problems", "What is wrong now, and what to do about it",
		a.command(verb{op: "list-problems", use: "list", noun: problem, rows: troubles}),
		a.command(verb{op: "dismiss-problem", use: "dismiss", done: "%s is hidden from you for as long as it stands"}),
		a.command(verb{op: "restore-problem", use: "restore", done: "%s is shown again"}),
	))
}

func setupCommand(a *app) *cobra.Command {
	return a.noun(group("setup", "Claim a new fleet",
		a.command(verb{op: "get-setup", use: "show"}),
		a.command(verb{op: "claim-fleet", use: "claim", takes: []string{"name"}, done: "the fleet is yours, %s",
			example: "  zoomies setup claim ada"}),
	))
}
