// Command zoomies is the one binary: every role of the fleet and every verb of its client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/install"
)

// version is set at build time.
var version = "dev"

// exitError carries a status that is not 1.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

func main() {
	runShim() // becomes a process runner's supervisor when it was started as one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "zoomies:", err)
	if ex, ok := errors.AsType[exitError](err); ok {
		os.Exit(ex.code)
	}
	os.Exit(1)
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "zoomies",
		Short:         "A fleet of throw-away GitHub Actions runners on your own machines",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(controllerCommand(), agentCommand(), joinTokenCommand(), keysCommand(), demoCommand(), install.InitCommand(), install.UninstallCommand())
	return c
}
