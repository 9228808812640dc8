package cli

import (
	"github.com/spf13/cobra"
)

// drain empties a host.
func (a *app) drain() *cobra.Command {
	return a.command(verb{op: "drain-host", use: "drain", noun: host, done: "host %s is drained: jobs get five minutes to finish"})
}
