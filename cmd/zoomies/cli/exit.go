package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// Exit is one status that the binary ends with. docs/reference/exit-codes.md comes from the table.
type Exit struct {
	Code    int
	Meaning string
}

// The statuses that the client's verbs end with.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitConflict    = 5
	ExitUnavailable = 6
	ExitAttention   = 10
	ExitBroken      = 11
)

// Exits lists them.
var Exits = []Exit{
	{ExitOK, "Done."},
	{ExitFailed, "Failed, for a reason that has no status of its own; the message says why."},
	{ExitUsage, "The command, a flag or a value is wrong. Nothing was changed."},
	{ExitNotFound, "What was named does not exist, or may not be seen."},
	{ExitRefused, "Not signed in, or not allowed."},
	{ExitConflict, "It is in another state than the command needs, or changed meanwhile."},
	{ExitUnavailable, "The controller does not answer, or asks to come back later."},
	{ExitAttention, "Of `zoomies status`: the fleet works, and something needs attention."},
	{ExitBroken, "Of `zoomies status`: the fleet does not work."},
}

// UsageError is a command that makes no sense.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// codeError ends the command with a status of its own and says nothing.
type codeError int

// Error implements error.
func (e codeError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// notFoundError says that a name stands for nothing.
type notFoundError struct{ text string }

// Error implements error.
func (e notFoundError) Error() string { return e.text }

// Silent says that an error was told already.
func Silent(err error) bool {
	var code codeError
	return errors.As(err, &code)
}

// ExitCode is the status that a command which failed with err ends with.
func ExitCode(err error) int {
	var code codeError
	var bad UsageError
	var none notFoundError
	var p *client.Problem
	var un *client.UnavailableError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &bad), strings.HasPrefix(err.Error(), "unknown command "), strings.HasPrefix(err.Error(), "required flag"):
		return ExitUsage
	case errors.As(err, &none):
		return ExitNotFound
	case errors.As(err, &p):
		return exitOf(p.Status)
	case errors.As(err, &un), errors.Is(err, context.DeadlineExceeded):
		return ExitUnavailable
	}
	return ExitFailed
}

func exitOf(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return ExitUsage
	case http.StatusNotFound, http.StatusGone:
		return ExitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitRefused
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ExitUnavailable
	}
	return ExitFailed
}

// usage makes a command's complaint about its arguments one about its usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if cmd.HasSubCommands() && len(args) > 0 {
			text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			return UsageError{errors.New(text + didYouMean(args[0], names))}
		}
		return UsageError{fmt.Errorf("%w\nusage: %s", err, cmd.UseLine())}
	}
}

// Setup prepares the root: what is wrong with a flag is wrong usage.
func Setup(root *cobra.Command) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	root.SuggestionsMinimumDistance = 2
	root.AddGroup(&cobra.Group{ID: GroupClient, Title: "Speak to a controller:"})
}
