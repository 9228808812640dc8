package cli

import (
	"github.com/spf13/cobra"
)

func poolsCommand(a *app) *cobra.Command {
	return a.noun(group("pools", "What runners there are, for which jobs",
		a.command(verb{op: "list-pools", use: "list", noun: pool}),
		a.command(verb{op: "get-pool", use: "get", noun: pool}),
		a.command(verb{op: "create-pool", use: "create", noun: pool, takes: []string{"name"},
			example: "  zoomies pools create linux --installation acme --labels linux-large --max 8"}),
		a.command(verb{op: "update-pool", use: "edit", noun: pool, docs: "create-pool", example: "  zoomies pools edit linux --max 12"}),
		a.command(verb{op: "delete-pool", use: "delete", noun: pool, confirm: "Delete the pool %s?", done: "pool %s is deleted"}),
		a.command(verb{op: "pause-pool", use: "pause", noun: pool, done: "pool %s starts no runner until it is resumed"}),
		a.command(verb{op: "resume-pool", use: "resume", noun: pool, done: "pool %s may start runners again"}),
		a.command(verb{op: "prewarm-pool", use: "prewarm", noun: pool, show: prewarmed}),
	))
}

func hostsCommand(a *app) *cobra.Command {
	return a.noun(group("hosts", "The machines that runners run on",
		a.command(verb{op: "list-hosts", use: "list", noun: host}),
		a.command(verb{op: "get-host", use: "get", noun: host}),
		a.command(verb{op: "cordon-host", use: "cordon", noun: host, done: "host %s takes no new runner"}),
		a.command(verb{op: "uncordon-host", use: "uncordon", noun: host, done: "host %s takes runners again"}),
		a.drain(),
		a.command(verb{op: "delete-host", use: "delete", noun: host, confirm: "Forget the host %s?", done: "host %s is forgotten, and its token with it"}),
	))
}

func runnersCommand(a *app) *cobra.Command {
	return a.noun(group("runners", "The runners, and what became of them",
		a.command(verb{op: "list-runners", use: "list", noun: runner}),
		a.command(verb{op: "get-runner", use: "get", noun: runner}),
		a.command(verb{op: "get-runner-timeline", use: "timeline", noun: runner, show: timeline}),
		a.command(verb{op: "stop-runner", use: "stop", noun: runner, confirm: "Stop the runner %s? Its job gets five minutes to finish.", done: "runner %s is drained"}),
		a.logs(),
	))
}

func jobsCommand(a *app) *cobra.Command {
	return a.noun(group("jobs", "The jobs that GitHub queued for this fleet",
		a.command(verb{op: "list-jobs", use: "list", noun: job}),
		a.command(verb{op: "get-job", use: "get", noun: job}),
		a.command(verb{op: "explain-job", use: "explain", noun: job, show: explained}),
		a.command(verb{op: "get-job-timeline", use: "timeline", noun: job, show: timeline}),
		a.command(verb{op: "rerun-job", use: "rerun", noun: job, done: "GitHub runs the job again"}),
		a.command(verb{op: "cancel-job", use: "cancel", noun: job, confirm: "Cancel the workflow run of %s?", done: "GitHub cancels the job's workflow run"}),
	))
}

func queueCommand(a *app) *cobra.Command {
	return a.noun(group("queue", "Whether the fleet starts runners, and how much waits",
		a.command(verb{op: "get-queue", use: "show"}),
		a.command(verb{op: "pause-queue", use: "pause", done: "the fleet starts no runner until the queue is resumed"}),
		a.command(verb{op: "resume-queue", use: "resume", done: "the fleet may start runners again"}),
	))
}

// noun finishes a noun's command: none, when no controller serves any of its verbs.
func (a *app) noun(c *cobra.Command) *cobra.Command {
	if !c.HasSubCommands() {
		return nil
	}
	return a.connected(c)
}
