// Package cli is the client half of the binary: the verbs that speak to a controller over its API, here or from another machine.
// Which verbs there are is written down by noun; their flags come from the API's own description. It must never open the database,
// and never show or keep a secret other than in the file that is asked for.
package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// The variables that choose a controller. The token is no flag: a process list is no place for a secret.
const (
	VariableServer  = "ZOOMIES_SERVER"
	VariableToken   = "ZOOMIES_TOKEN"
	VariableContext = "ZOOMIES_CONTEXT"
	VariableConfig  = "ZOOMIES_CLI_CONFIG"
)

// Variables lists them, for whoever looks for misspelt ones.
var Variables = []string{VariableServer, VariableToken, VariableContext, VariableConfig}

// Options make the commands.
type Options struct {
	Version string
	// LocalSocket says where a controller of this machine answers its owner; empty when that cannot be told.
	LocalSocket func() string
}

// app is what all verbs share: the flags of the command that runs, and the controller that it speaks to.
type app struct {
	options Options
	flags   struct {
		output, context, server, tokenFile, caFile, pin string
		quiet, yes                                      bool
	}
	names map[string]string // of objects that were asked for by name, by ID
	now   func() time.Time
}

// New prepares the client's verbs.
func New(o Options) *CLI { return &CLI{&app{options: o, names: map[string]string{}, now: time.Now}} }

// CLI is the client half of the binary.
type CLI struct{ app *app }

// Commands returns every verb of the client, but those below join-token.
func (c *CLI) Commands() []*cobra.Command {
	var out []*cobra.Command
	for _, command := range []func(*app) *cobra.Command{
		statusCommand, problemsCommand, eventsCommand, poolsCommand, hostsCommand, providersCommand, runnersCommand, jobsCommand, queueCommand,
		installationsCommand, githubCommand, usersCommand, tokensCommand, sessionsCommand, settingsCommand, auditCommand, setupCommand,
		loginCommand, logoutCommand, contextCommand, apiCommand,
	} {
		if made := command(c.app); made != nil {
			made.GroupID = GroupClient
			out = append(out, made)
		}
	}
	return out
}

// JoinTokens gives the command that makes a join token its verbs.
func (c *CLI) JoinTokens(parent *cobra.Command) {
	parent.GroupID = GroupClient
	for _, v := range []*cobra.Command{
		c.app.command(verb{op: "create-join-token", use: "create", noun: joinToken, takes: []string{"host_name"}, more: "the token is shown this once, and works once"}),
		c.app.command(verb{op: "list-join-tokens", use: "list", noun: joinToken}),
		c.app.command(verb{op: "delete-join-token", use: "revoke", noun: joinToken, confirm: "Revoke the join token %s?", done: "join token %s is revoked"}),
	} {
		if v != nil {
			parent.AddCommand(c.app.connected(v))
		}
	}
}

// GroupClient is the group of the verbs in the root's help.
const GroupClient = "client"

// connected gives a command the flags that choose a controller, and says how answers are shown.
func (a *app) connected(c *cobra.Command) *cobra.Command {
	f := c.PersistentFlags()
	f.StringVarP(&a.flags.output, "output", "o", "table", "how answers are shown: table, json or yaml")
	f.StringVar(&a.flags.context, "context", "", "context to use (see zoomies context; default: $"+VariableContext+" or the current one)")
	f.StringVar(&a.flags.server, "server", "", "address of the controller, https://host[:port] (default: $"+VariableServer+" or the context's)")
	f.StringVar(&a.flags.tokenFile, "token-file", "", "file with the API token (default: $"+VariableToken+" or the context's)")
	f.StringVar(&a.flags.caFile, "ca-file", "", "PEM file of the authority that the controller's certificate must come from")
	f.StringVar(&a.flags.pin, "pin", "", "SHA-256 of the public key of the authority that the controller's certificate must come from")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "print IDs and nothing else")
	f.BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask before something is deleted")
	complete(c, "output", "table", "json", "yaml")
	if err := c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.contextNames(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the flag exists
	}
	return c
}

// complete lets the shell offer a flag's values.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag exists
	}
}

// group is a noun: a command that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	for _, v := range verbs {
		if v != nil {
			c.AddCommand(v)
		}
	}
	return c
}

// with runs a verb against its controller.
func (a *app) with(run func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.checkOutput(); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, cmd, args)
	}
}
