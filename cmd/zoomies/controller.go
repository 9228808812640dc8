package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/cli"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func controllerCommand() *cobra.Command {
	var configFile string
	var takeover bool
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the control plane, with an agent of its own unless that is switched off",
		Args:  cobra.NoArgs,
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
		File: config.FindFile(file), Database: database, Environ: os.Environ(), OtherVariables: append([]string{joinTokenVariable}, cli.Variables...),
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
	log, err := newLogger(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data folder: %w", err)
	}
	st, holder, release, err := openStore(ctx, cfg, takeover, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	rows, err := st.Settings(ctx)
	if err != nil {
		return err
	}
	if cfg, err = loadConfig(configFile, rows); err != nil {
		return err
	}
	if err := judgeConfig(cfg, true); err != nil {
		return err
	}
	ctrl, err := controller.New(ctx, controller.Options{
		Store: st, Settings: settings(cfg), Holder: holder, GitHub: controller.GitHubClients(cfg.GitHub.MintsPerMinute),
		Version: version, Logger: log,
	})
	if err != nil {
		return err
	}
	network, local, err := apiHandlers(ctx, cfg, st, ctrl, log)
	if err != nil {
		return err
	}
	told := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ctrl.Run(ctx) })
	g.Go(func() error { return serve(ctx, cfg, network, log) })
	g.Go(func() error {
		if err := serveLocal(ctx, localSocket(cfg.DataDir), local); err != nil {
			log.Warn("the commands of this machine's owner cannot reach the controller", "err", err)
		}
		return nil
	})
	if cfg.Agent.Embedded {
		g.Go(func() error { return runEmbedded(ctx, cfg, ctrl, log) })
	}
	err = g.Wait()
	if told.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // told to stop before it had quite started
	}
	return err
}

// openStore takes the file lock, the keys, the database and the lease, in that order, and returns how to give them back.
func openStore(ctx context.Context, cfg *config.Config, takeover bool, log *slog.Logger) (*store.Store, store.Holder, func() error, error) {
	none := store.Holder{}
	unlock, err := store.LockFile(cfg.DatabaseFile())
	if err != nil {
		if !takeover || !errors.Is(err, store.ErrLeaseHeld) {
			return nil, none, nil, fmt.Errorf("cannot start: %w", err)
		}
		log.Warn("starting although another process holds the database", "err", err)
		unlock = func() error { return nil }
	}
	keys, err := secrets.LoadOrCreate(cfg.KeyFile())
	if err != nil {
		return nil, none, nil, errors.Join(err, unlock())
	}
	holder, err := store.ThisProcess(cfg.DatabaseFile())
	if err != nil {
		return nil, none, nil, errors.Join(err, unlock())
	}
	st, err := store.Open(ctx, store.Options{Path: cfg.DatabaseFile(), Keys: keys, Holder: holder, Takeover: takeover, Logger: log})
	if err != nil {
		return nil, none, nil, errors.Join(fmt.Errorf("cannot start: %w", err), unlock())
	}
	if err := st.AcquireLease(ctx, holder, controller.LeaseTTL, takeover); err != nil {
		return nil, none, nil, errors.Join(fmt.Errorf("cannot start: %w", err), st.Close(), unlock())
	}
	release := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(st.ReleaseLease(ctx, holder.ID), st.Close(), unlock())
	}
	return st, holder, release, nil
}

func settings(cfg *config.Config) controller.Settings {
	s := controller.DefaultSettings()
	s.Tick = cfg.Scheduler.Tick
	s.HeartbeatInterval = cfg.Agent.HeartbeatInterval
	s.FinishedRetention = cfg.Agent.FinishedRetention
	s.Scheduler.ProvisionTimeout = cfg.Scheduler.ProvisionTimeout
	s.Scheduler.MaxLifetime = cfg.Scheduler.MaxRunnerLifetime
	s.Scheduler.TickBudget = cfg.Scheduler.TickBudget
	s.CreateTimeout = cfg.Runners.CreateTimeout
	s.DaemonWait = cfg.Runners.DockerWait
	s.RunnerEnv = cfg.Runners.Env
	s.PollFallback = cfg.GitHub.PollFallback
	s.PollInterval = cfg.GitHub.PollInterval
	s.JobRecheck = cfg.GitHub.JobRecheck
	return s
}

// serve answers HTTP until ctx ends, then lets requests finish for a moment.
func serve(ctx context.Context, cfg *config.Config, h http.Handler, log *slog.Logger) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", cfg.Listen, err)
	}
	log.Info("listening", "address", ln.Addr().String())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			stopped <- srv.Close() // a long poll is still open
			return
		}
		stopped <- nil
	}()
	if cfg.TLS.CertFile != "" {
		err = srv.ServeTLS(ln, cfg.TLS.CertFile, cfg.TLS.KeyFile)
	} else {
		err = srv.Serve(ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the HTTP server stopped: %w", err)
	}
	return <-stopped
}

// embeddedJoinTTL is how long a join token of the embedded agent lives: it is made when the agent needs one, and used at once.
const embeddedJoinTTL = time.Minute

func runEmbedded(ctx context.Context, cfg *config.Config, ctrl *controller.Controller, log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("cannot tell this machine's name: %w", err)
	}
	bind, err := backends(ctx, cfg.Agent.Backends, cfg.Agent.PodmanSocket, cfg.DataDir, log)
	if err != nil {
		return err
	}
	unbound, err := bind("")
	if err != nil {
		return err
	}
	return agent.Serve(ctx, agent.Config{
		Controller: ctrl.Agents(), Address: "in-process", Backends: unbound, Bind: bind, StatePath: filepath.Join(cfg.DataDir, "agent.json"),
		NewJoinToken: func(ctx context.Context) (string, error) { return ctrl.NewJoinToken(ctx, name, true, embeddedJoinTTL) },
		Name:         name, Version: version, Capacity: cfg.Agent.Slots(), WorkDir: cfg.DataDir, Logger: log.With("room", "agent"),
	})
}
