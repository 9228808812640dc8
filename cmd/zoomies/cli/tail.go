package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// tail reads the audit log, and may follow it.
func (a *app) tail() *cobra.Command {
	var follow bool
	c := a.command(verb{
		op: "list-audit", use: "tail", noun: auditRow, hide: []string{"after"}, short: "Read the audit log, newest first",
		flags: func(c *cobra.Command) {
			c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until it is interrupted")
		},
	})
	if c == nil {
		return nil
	}
	once := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !follow {
			return once(cmd, args)
		}
		return a.with(a.followAudit)(cmd, args)
	}
	return c
}

// followAudit shows each new entry on a line.
func (a *app) followAudit(ctx context.Context, c *client.Client, cmd *cobra.Command, _ []string) error {
	path := operations["list-audit"].path
	last := "0"
	for raw, err := range client.List[object](ctx, c, path, url.Values{"limit": {"1"}}) {
		if err != nil {
			return err
		}
		last = fmt.Sprint(raw["seq"])
		break
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		fresh, err := client.All[json.RawMessage](ctx, c, path, url.Values{"after": {last}, "limit": {"500"}})
		if ctx.Err() != nil {
			return nil // told to stop
		}
		if err != nil {
			return err
		}
		slices.Reverse(fresh)
		for _, raw := range fresh {
			o, err := decode(raw)
			if err != nil {
				return err
			}
			last = fmt.Sprint(o["seq"])
			if a.flags.output == outputTable && !a.flags.quiet {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s  %s %s\n", clockTime(o.text("at")), o.text("actor_name"), o.text("action"), o.text("object_kind"), oneLine(o.text("object_name")))
				continue
			}
			if err := a.showOne(cmd.OutOrStdout(), raw); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
