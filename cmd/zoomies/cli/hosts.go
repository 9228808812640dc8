package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// pollEvery is how often a command that waits looks again.
const pollEvery = time.Second

// wait looks until done says that it is over.
func wait(ctx context.Context, limit time.Duration, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain empties a host.
func (a *app) drain() *cobra.Command {
	var until bool
	var limit time.Duration
	return a.command(verb{
		op: "drain-host", use: "drain", noun: host, done: "host %s is drained: jobs get five minutes to finish",
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(&until, "wait", false, "wait until no runner is left on it")
			c.Flags().DurationVar(&limit, "timeout", 10*time.Minute, "how long to wait at most")
		},
		after: func(ctx context.Context, a *app, c *client.Client, cmd *cobra.Command, id string) error {
			if !until {
				return nil
			}
			told := int64(-1)
			err := wait(ctx, limit, func(ctx context.Context) (bool, error) {
				h, err := client.Decode[struct {
					UsedSlots int64 `json:"used_slots"`
				}](ctx, c, http.MethodGet, "/api/v1/hosts/"+url.PathEscape(id), nil, nil)
				if err != nil {
					return false, err
				}
				if _, ok := terminal(cmd.ErrOrStderr()); ok && h.UsedSlots != told && !a.flags.quiet {
					told = h.UsedSlots
					fmt.Fprintf(cmd.ErrOrStderr(), "%d runners are left\n", told)
				}
				return h.UsedSlots == 0, nil
			})
			if err != nil {
				return fmt.Errorf("cannot wait for the host to be empty; it is drained all the same: %w", err)
			}
			return nil
		},
	})
}
