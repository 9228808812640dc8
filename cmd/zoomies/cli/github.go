package cli

import (
	"github.com/spf13/cobra"
)

func installationsCommand(a *app) *cobra.Command {
	return a.noun(group("installations", "The GitHub accounts that the fleet serves",
		a.command(verb{op: "list-installations", use: "list", noun: installation}),
		a.command(verb{op: "get-installation", use: "get", noun: installation}),
		a.command(verb{op: "create-installation", use: "add", noun: installation,
			more:    "a webhook secret that was made is shown this once: give it to the App at GitHub",
			example: "  zoomies installations add --name acme --app-id 12345 --installation-id 67890 --private-key-file app.pem"}),
		a.command(verb{op: "update-installation", use: "update", noun: installation, docs: "create-installation"}),
		a.command(verb{op: "delete-installation", use: "delete", noun: installation, confirm: "Forget the installation %s and its key?", done: "installation %s is forgotten"}),
		a.command(verb{op: "check-installation", use: "check", noun: installation, show: findings, verdict: "ok",
			long: "Ask GitHub whether the key works and the permissions suffice. Ends with 1 when they do not."}),
	))
}

func githubCommand(a *app) *cobra.Command {
	apps := group("apps", "GitHub Apps that were made for this fleet",
		a.command(verb{op: "list-apps", use: "list", noun: githubApp}),
		a.command(verb{op: "adopt-installations", use: "adopt", noun: githubApp}),
		a.command(verb{op: "delete-app", use: "forget", noun: githubApp, confirm: "Forget the GitHub App %s and its key?", done: "the App %s is forgotten here; GitHub still has it"}),
	)
	if !apps.HasSubCommands() {
		apps = nil
	}
	return a.noun(group("github", "The connection to GitHub",
		a.connect(), a.command(verb{op: "finish-manifest", use: "finish"}), apps,
		a.command(verb{op: "list-deliveries", use: "deliveries", noun: delivery}),
	))
}
