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

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/cli"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/ignite"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/install"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
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
	if !cli.Silent(err) {
		fmt.Fprintln(os.Stderr, "zoomies:", err)
	}
	if ex, ok := errors.AsType[exitError](err); ok {
		os.Exit(ex.code)
	}
	os.Exit(cli.ExitCode(err))
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "zoomies",
		Short:         "A fleet of throw-away GitHub Actions runners on your own machines",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cli.Setup(c)
	verbs := cli.New(cli.Options{Version: version, LocalSocket: usualSocket})
	join := joinTokenCommand()
	verbs.JoinTokens(join)
	c.AddCommand(controllerCommand(), agentCommand(), gatewayCommand(), join, keysCommand(), demoCommand(), referenceCommand(), ignite.Command(),
		install.InitCommand(), install.UninstallCommand())
	c.AddCommand(verbs.Commands()...)
	return c
}

// usualSocket is the local socket of the controller that this machine's settings describe.
func usualSocket() string {
	cfg, err := loadConfig("", nil)
	if err != nil {
		return "" // the controller itself says what is wrong with them
	}
	return serve.LocalSocket(cfg.DataDir)
}
