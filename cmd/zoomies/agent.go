package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
)

func agentCommand() *cobra.Command {
	var f agentcmd.Flags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run runners on this machine for a controller elsewhere",
		Long: "Joins a controller with a single-use token and runs the runners it is given. It connects outward only. The token of the first start\n" +
			"comes from $" + agentcmd.TokenVariable + " or --token-file; later starts use what the first one left in the data folder, agent.json. Do not copy\n" +
			"that file or clone a machine that has it: two machines cannot be one host, and the second is refused. A host that takes over the name\n" +
			"of another, such as the same machine made anew, needs a token made for that name. Stopping an agent leaves its jobs running.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := agentcmd.NewLogger(os.Stderr, "info", "text")
			if err != nil {
				return err
			}
			return agentcmd.Run(cmd.Context(), f, agentcmd.Options{Version: version, Makers: makers, Logger: log})
		},
	}
	f.Add(c.Flags(), "podman, docker, process")
	return c
}
