package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/cli"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/gateway/install"
)

func controllerCommand() *cobra.Command {
	var configFile string
	var takeover bool
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the control plane, with an agent of its own unless that is switched off",
		Long: "Runs the control plane, and an agent inside it unless agent.embedded is false. It prints every finding about its settings first, and\n" +
			"does not start when one is an error. A second controller over the same database is refused, with the host and process that hold it,\n" +
			"before it changes anything.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile, nil)
			if err != nil {
				return err
			}
			if err := judgeConfig(cfg, false); err != nil {
				return err
			}
			return runController(cmd.Context(), cfg, configFile, takeover)
		},
	}
	c.Flags().StringVar(&configFile, "config", "", "path of zoomies.yaml")
	c.Flags().BoolVar(&takeover, "takeover", false, "start although another controller holds the database: only when it is known to be gone")
	return c
}

// loadConfig reads the layers that exist: the file that was named or is in its usual place, the database's rows when there are
// any yet, and the environment.
func loadConfig(file string, database map[string]string) (*config.Config, error) {
	return config.Load(config.LoadOptions{
		File: config.FindFile(file), Database: database, Environ: os.Environ(),
		OtherVariables: slices.Concat(agentcmd.Variables, []string{install.CapabilityVariable, install.RelayVariable, install.AdmitVariable}, cli.Variables),
	})
}

// judgeConfig refuses settings with errors. With say, every finding is printed; an error always is.
func judgeConfig(cfg *config.Config, say bool) error {
	findings := config.Validate(cfg)
	bad := config.Errors(findings)
	for _, f := range findings {
		if say || bad {
			fmt.Fprintf(os.Stderr, "%s: %s (%s)\n  why: %s\n  fix: %s\n", f.Severity, f.Title, f.Key, f.Why, f.Fix)
		}
	}
	if bad {
		return errors.New("the configuration has errors; nothing was started")
	}
	return nil
}

func runController(ctx context.Context, cfg *config.Config, configFile string, takeover bool) (err error) {
	serve.KeepSmall()
	log, err := agentcmd.NewLogger(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data folder: %w", err)
	}
	db, err := serve.Open(ctx, serve.Files{Database: cfg.DatabaseFile(), Keys: cfg.KeyFile()}, takeover, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Store.Settings(ctx)
	if err != nil {
		return err
	}
	if cfg, err = loadConfig(configFile, rows); err != nil {
		return err
	}
	if err := judgeConfig(cfg, true); err != nil {
		return err
	}
	svc, err := serve.New(ctx, serve.Options{
		Database: db, Settings: controller.SettingsOf(cfg), GitHub: controller.GitHubClients(cfg.GitHub.MintsPerMinute), Version: version,
		Listen: cfg.Listen, Dir: cfg.DataDir, Logger: log, Notices: os.Stderr, Config: cfg, Findings: config.Validate(cfg),
		PublicMetrics: cfg.Metrics.Public, LoadConfig: func(rows map[string]string) (*config.Config, error) { return loadConfig(configFile, rows) },
	})
	if err != nil {
		return err
	}
	told := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return svc.Run(ctx) })
	if cfg.Agent.Embedded {
		g.Go(func() error { return runEmbedded(ctx, cfg, svc.Controller, log) })
	}
	err = g.Wait()
	if told.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // told to stop before it had quite started
	}
	return err
}

func runEmbedded(ctx context.Context, cfg *config.Config, ctrl *controller.Controller, log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("cannot tell this machine's name: %w", err)
	}
	bind, err := agentcmd.Backends(ctx, cfg.Agent.Backends, makers, agentcmd.Engine{PodmanSocket: cfg.Agent.PodmanSocket, DataDir: cfg.DataDir, Logger: log})
	if err != nil {
		return err
	}
	unbound, err := bind("")
	if err != nil {
		return err
	}
	return serve.Agent(ctx, serve.AgentOptions{
		Controller: ctrl.Agents(), NewJoinToken: ctrl.NewJoinToken, Backends: unbound, Bind: bind, Dir: cfg.DataDir,
		Name: name, Version: version, Capacity: cfg.Agent.Slots(), Logger: log.With("room", "agent"),
	})
}
