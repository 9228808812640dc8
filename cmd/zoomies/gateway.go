package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
	"github.com/zoomies-fleet/zoomies/gateway"
	"github.com/zoomies-fleet/zoomies/gateway/install"
)

func gatewayCommand() *cobra.Command {
	c := &cobra.Command{Use: "gateway", Short: "Let the controller reach a provider that is not reachable from it", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(gatewayRunCommand(), gatewayStatusCommand(), gatewayInstallCommand(), gatewayUninstallCommand())
	return c
}

func gatewayRunCommand() *cobra.Command {
	var dir, target string
	var quiet bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Forward the controller's connections to one address",
		Long: "Waits in the tunnel for the controller, its only client, and passes its connections on to one host and port, byte for byte. It connects\n" +
			"outward only, to the controller's relay. `zoomies gateway install` makes a service that runs it. Where to find the relay is in\n" +
			"$" + install.RelayVariable + ", and the controller's key in $" + install.AdmitVariable + "; neither is a secret.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := "info"
			if quiet {
				level = "warn"
			}
			log, err := agentcmd.NewLogger(os.Stderr, level, "text")
			if err != nil {
				return err
			}
			relay, admit := os.Getenv(install.RelayVariable), os.Getenv(install.AdmitVariable)
			if relay == "" || admit == "" {
				return fmt.Errorf("cannot run a gateway: $%s and $%s say where the controller is, and one of them is empty; use `zoomies gateway install`", install.RelayVariable, install.AdmitVariable)
			}
			return gateway.Run(cmd.Context(), gateway.Options{
				StateDir: dir, Target: target, Tunnel: &gateway.Tailcat{Relay: relay, Admit: admit, Log: log}, Log: log,
			})
		},
	}
	c.Flags().StringVar(&dir, "state-dir", install.StateDir, "folder of the gateway's identity, its owner's alone")
	c.Flags().StringVar(&target, "target", "", "the one host:port that connections go to (required)")
	c.Flags().BoolVar(&quiet, "quiet", false, "say nothing but what is wrong")
	_ = c.MarkFlagRequired("target") // the flag exists
	return c
}

func gatewayStatusCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "status", Short: "Say how the gateway of this machine is", Long: "Shows what the gateway says of itself, as JSON. Ends with 1 unless it is ready.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := gateway.ReadStatus(dir)
			if err != nil {
				return err
			}
			raw, err := json.MarshalIndent(st, "", "  ")
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
			if st.Status != gateway.Ready {
				return fmt.Errorf("the gateway is %s", st.Status)
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "state-dir", install.StateDir, "folder of the gateway's identity")
	return c
}

func gatewayInstallCommand() *cobra.Command {
	a := install.Answers{}
	var pin string
	var dry bool
	c := &cobra.Command{
		Use:   "install",
		Short: "Connect the Proxmox VE of this node to a controller",
		Long: "Run it as root on a Proxmox VE node, as the controller's command has it. It makes a resource pool, a user, an API token that may do\n" +
			"no more than machines need, and a gateway as a service of its own; and it tells the controller. The capability is in\n" +
			"$" + install.CapabilityVariable + ", or comes on the standard input. Run it again when it was interrupted. It never touches an agent.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runGatewayInstall(cmd, a, pin, dry) },
	}
	fl := c.Flags()
	fl.StringVar(&a.Name, "name", "", "name of the connection (required)")
	fl.StringVar(&a.Controller, "controller", "", "address of the controller, https://host[:port] (required)")
	fl.StringVar(&pin, "ca-pin", "", "the authority that the controller's certificate must come from, sha256:…")
	fl.StringVar(&a.Pool, "pool", install.DefaultPool, "resource pool that machines are made in")
	fl.StringArrayVar(&a.Storages, "storage", nil, "storage that machines may use; more than once for more (default: chosen)")
	fl.StringVar(&a.Bridge, "bridge", install.DefaultBridge, "bridge that machines are connected to")
	fl.StringVar(&a.Relay, "relay", "", "the controller's relay (required)")
	fl.StringVar(&a.Admit, "admit", "", "the controller's public key, the gateway's only client (required)")
	fl.BoolVar(&dry, "dry-run", false, "print every command, and change nothing")
	for _, name := range []string{"name", "controller", "relay", "admit"} {
		_ = c.MarkFlagRequired(name) // the flag exists
	}
	return c
}

func runGatewayInstall(cmd *cobra.Command, a install.Answers, pin string, dry bool) error {
	if err := a.Check(); err != nil {
		return err
	}
	var err error
	if a.Capability, err = setupCapability(cmd.InOrStdin(), dry); err != nil {
		return err
	}
	if os.Geteuid() != 0 && !dry {
		return errors.New("cannot connect this node: run it as root")
	}
	post, err := completion(a.Controller, pin)
	if err != nil {
		return err
	}
	h := &install.Host{Out: cmd.OutOrStdout(), Post: post}
	journal, _, err := h.Journal()
	if err != nil {
		return err
	}
	facts, err := h.Look(cmd.Context())
	if err != nil {
		return err
	}
	plan, err := install.Install(a, facts, journal)
	if err != nil {
		return err
	}
	if dry {
		install.Show(cmd.OutOrStdout(), facts, plan)
		return nil
	}
	if err := h.Do(cmd.Context(), a, facts, plan, journal); err != nil {
		return err
	}
	for _, note := range plan.Notes {
		fmt.Fprintln(cmd.OutOrStdout(), note)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\n%s is connected: the controller reaches this node's API through the gateway.\n  see how it is:  zoomies gateway status\n  take it off:    zoomies gateway uninstall\n", a.Name)
	return nil
}

// setupCapability takes the capability from its variable, which it removes so that no child process inherits it, or from the standard
// input. A dry run needs none.
func setupCapability(in io.Reader, dry bool) (string, error) {
	token := strings.TrimSpace(os.Getenv(install.CapabilityVariable))
	if err := os.Unsetenv(install.CapabilityVariable); err != nil {
		return "", err
	}
	if token != "" || dry {
		return token, nil
	}
	if f, ok := in.(*os.File); !ok || !isatty.IsTerminal(f.Fd()) {
		raw, err := io.ReadAll(io.LimitReader(in, 1<<10))
		if err != nil {
			return "", fmt.Errorf("cannot read the setup's token: %w", err)
		}
		token = string(bytes.TrimSpace(raw))
	}
	if token == "" {
		return "", fmt.Errorf("cannot connect without the setup's token: copy the controller's command whole, or give it in $%s or on the standard input", install.CapabilityVariable)
	}
	return token, nil
}

// completionTimeout bounds one completion, with its repeats.
const completionTimeout = 2 * time.Minute

// completion posts a connection to the controller.
func completion(controller, pin string) (func(context.Context, string, install.Connection) error, error) {
	c, err := client.New(client.Options{Server: controller, PinSHA256: strings.TrimPrefix(pin, "sha256:"), UserAgent: "zoomies-gateway/" + version})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, capability string, conn install.Connection) error {
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		_, err := c.Call(ctx, "POST", "/api/v1/provider-setups/completion", nil, map[string]any{"token": capability, "connection": conn})
		return err
	}, nil
}

func gatewayUninstallCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Take off this node what gateway install made there",
		Long: "Stops the gateway, takes its rights back and removes everything that `zoomies gateway install` made and nothing else. The machines in\n" +
			"the resource pool stay. The controller loses its way to this node: end its provider first.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := &install.Host{Out: cmd.OutOrStdout()}
			journal, there, err := h.Journal()
			switch {
			case err != nil:
				return err
			case !there:
				return fmt.Errorf("cannot uninstall: there is no %s, so `zoomies gateway install` has made nothing here", install.JournalFile)
			case os.Geteuid() != 0 && !dry:
				return errors.New("cannot uninstall: run it as root")
			}
			facts, err := h.LookAccess(cmd.Context())
			if err != nil {
				return err
			}
			plan := install.Uninstall(facts, journal)
			if dry {
				install.Show(cmd.OutOrStdout(), facts, plan)
				return nil
			}
			err = h.Undo(cmd.Context(), plan, journal)
			for _, note := range plan.Notes {
				fmt.Fprintln(cmd.OutOrStdout(), note)
			}
			return err
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "print every command, and change nothing")
	return c
}
