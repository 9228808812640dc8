package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// logs follows a runner's output.
func (a *app) logs() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "logs RUNNER", Short: "Show a runner's output as it comes", Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: a.completeFirst(runner),
		Long:        "Show a runner's output as it comes, until the runner ends or the command is interrupted.",
		Annotations: map[string]string{annotationOperation: "watch-runner-logs"},
		RunE: a.with(func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) error {
			id, err := a.find(ctx, c, runner, args[0])
			if err != nil {
				return err
			}
			o := a.following(cmd, client.FollowOptions{Ends: func(e client.Event) bool { return e.Type == "end" }})
			for e, err := range c.Follow(ctx, client.PathRunnerLogs(id), o) {
				if ctx.Err() != nil {
					return nil // told to stop
				}
				if err != nil {
					return err
				}
				if err := a.showOutput(cmd, e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", true, "go on until the runner ends; it is what the command does")
	return c
}

// showOutput writes a piece of a runner's output, or says that one was lost.
func (a *app) showOutput(cmd *cobra.Command, e client.Event) error {
	var v struct {
		Text    string `json:"text"`
		Bytes   int64  `json:"bytes"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return fmt.Errorf("cannot read the runner's output: %w", err)
	}
	switch e.Type {
	case "log":
		_, err := io.WriteString(cmd.OutOrStdout(), v.Text)
		return err
	case "lost":
		fmt.Fprintf(cmd.ErrOrStderr(), "[%d bytes of output were left out: this terminal was too slow for them]\n", v.Bytes)
	case "end":
		if !a.flags.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "[%s]\n", oneLine(v.Message))
		}
	}
	return nil
}

// retryNote says that a stream broke and when it is asked for again.
func retryNote(w io.Writer) func(error, time.Duration) {
	return func(err error, wait time.Duration) {
		fmt.Fprintf(w, "%s; trying again in %s\n", err, wait.Round(100*time.Millisecond))
	}
}
