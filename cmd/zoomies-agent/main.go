// Command zoomies-agent is the agent role alone, small enough to be carried by the config that a rented machine is ignited with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
)

// version is set at build time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, pflag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "zoomies-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var f agentcmd.Flags
	fl := pflag.NewFlagSet("zoomies-agent", pflag.ContinueOnError)
	say := fl.Bool("version", false, "print the version")
	f.Add(fl, "podman")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("cannot use %q: zoomies-agent takes flags alone; see --help", fl.Arg(0))
	}
	if *say {
		fmt.Println(version)
		return nil
	}
	log, err := agentcmd.NewLogger(os.Stderr, "info", "text")
	if err != nil {
		return err
	}
	return agentcmd.Run(ctx, f, agentcmd.Options{Version: version, Makers: map[string]agentcmd.Maker{"podman": agentcmd.Podman}, Logger: log})
}
