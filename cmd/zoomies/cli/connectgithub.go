package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// connect makes a GitHub App for this fleet. It prints the address that a browser has to open, and waits for what comes of it.
func (a *app) connect() *cobra.Command {
	var stay bool
	var limit time.Duration
	known := map[string]bool{}
	c := a.command(verb{
		op: "start-manifest", use: "connect", short: "Make a GitHub App for this fleet, and take over where it is installed",
		long: "Begin GitHub's manifest flow: print an address, which you open in a browser, and wait until the App is made and installed.\n" +
			"Where GitHub cannot send the browser back to the controller, give the code in the address to zoomies github finish.",
		flags: func(c *cobra.Command) {
			c.Flags().BoolVar(&stay, "wait", true, "wait until the App is installed; false only prints the address")
			c.Flags().DurationVar(&limit, "timeout", time.Hour, "how long to wait at most")
		},
	})
	if c == nil {
		return nil
	}
	begin := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := a.client()
		if err != nil {
			return err
		}
		apps, err := client.All[object](cmd.Context(), cl, pathApps, nil)
		if err != nil {
			return err
		}
		for _, app := range apps {
			known[app.text("id")] = true
		}
		if err := begin(cmd, args); err != nil || !stay {
			return err
		}
		return a.awaitApp(cmd, cl, known, limit)
	}
	return c
}

const pathApps = "/api/v1/github/apps"

// awaitApp waits for an App that was not known before, and then for an installation of it.
func (a *app) awaitApp(cmd *cobra.Command, c *client.Client, known map[string]bool, limit time.Duration) error {
	say := func(text string) {
		if !a.flags.quiet {
			fmt.Fprintln(cmd.ErrOrStderr(), text)
		}
	}
	say("open the address in a browser; waiting for the App (Ctrl-C ends the waiting, not the flow)")
	var made object
	err := wait(cmd.Context(), limit, func(ctx context.Context) (bool, error) {
		apps, err := client.All[object](ctx, c, pathApps, nil)
		if i := slices.IndexFunc(apps, func(o object) bool { return !known[o.text("id")] }); err == nil && i >= 0 {
			made = apps[i]
		}
		return made != nil, err
	})
	if err != nil {
		return fmt.Errorf("cannot wait for the App: %w", err)
	}
	say("the App " + made.text("name") + " is made; waiting until it is installed: " + made.text("install_url"))
	err = a.awaitInstallation(cmd, c, made, limit)
	if err != nil {
		return fmt.Errorf("cannot wait until the App is installed; zoomies github apps adopt takes it over later: %w", err)
	}
	return nil
}

// adoptEvery is how many looks lie between two questions to GitHub, for the case that it could not send the browser back.
const adoptEvery = 30

// awaitInstallation waits until the fleet serves an installation of the App, and shows it.
func (a *app) awaitInstallation(cmd *cobra.Command, c *client.Client, made object, limit time.Duration) error {
	looks := 0
	return wait(cmd.Context(), limit, func(ctx context.Context) (bool, error) {
		if looks++; looks%adoptEvery == 0 {
			if _, err := c.Call(ctx, http.MethodPost, pathApps+"/"+url.PathEscape(made.text("id"))+"/adopt", nil, nil); err != nil {
				return false, err
			}
		}
		all, err := client.All[json.RawMessage](ctx, c, operations["list-installations"].path, nil)
		if err != nil {
			return false, err
		}
		var ours []json.RawMessage
		for _, raw := range all {
			if o, err := decode(raw); err == nil && fmt.Sprint(o["app_id"]) == fmt.Sprintf("%.0f", made["app_id"]) && o.text("base_url") == made.text("base_url") {
				ours = append(ours, raw)
			}
		}
		if len(ours) == 0 {
			return false, nil
		}
		return true, a.showList(cmd.OutOrStdout(), ours, installation.cols)
	})
}
