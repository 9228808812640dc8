package cli

import "github.com/spf13/cobra"

// connect makes a GitHub App for this fleet.
func (a *app) connect() *cobra.Command {
	return a.command(verb{op: "start-manifest", use: "connect"})
}
