package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Options make a controller that serves.
type Options struct {
	Database *Database
	Settings controller.Settings
	GitHub   func(store.Installation) (github.API, error)
	Version  string
	Listen   string // address and port; port 0 is any free one
	// Config are the settings that it starts with; nil is the defaults.
	Config *config.Config
	// LoadConfig merges the settings' layers as a start would, over these rows of the database; nil never does.
	LoadConfig func(database map[string]string) (*config.Config, error)
	// Findings are what is questionable about Config.
	Findings []config.Finding
	// PublicMetrics shows the metrics to whoever asks.
	PublicMetrics bool
	// CertFile and KeyFile are PEM files to serve TLS with; "" serves plain HTTP.
	CertFile, KeyFile string
	Dir               string // the data folder: it holds the local socket, and the setup token of an unclaimed fleet
	Logger            *slog.Logger
}

// Service is a controller with its listener, which Run serves.
type Service struct {
	*controller.Controller
	o   Options
	api *api.Server
	ln  net.Listener
}

// New makes the controller and listens. Close the database after Run, or when Run is not called.
func New(ctx context.Context, o Options) (*Service, error) {
	st := o.Database.Store
	c, err := controller.New(ctx, controller.Options{
		Store: st, Settings: o.Settings, Holder: o.Database.Holder, GitHub: o.GitHub, Version: o.Version, Logger: o.Logger, Reload: o.reload(), Findings: o.Findings,
	})
	if err != nil {
		return nil, err
	}
	in := signin.New(signin.Options{Store: st, Logger: o.Logger})
	unclaimed, err := in.PrepareSetup(ctx, SetupToken(o.Dir))
	if err != nil {
		return nil, err
	}
	if unclaimed {
		o.Logger.Info("nobody has claimed this fleet yet: run `zoomies setup claim`", "setup_token_file", SetupToken(o.Dir))
	}
	server := api.New(api.Options{
		Store: st, Fleet: c, SignIn: in, Version: o.Version, Logger: o.Logger, Secure: o.CertFile != "", PublicURL: o.publicURL(),
		PublicMetrics: o.PublicMetrics, Running: o.Config, LoadSettings: o.LoadConfig, Rest: c.Handler(),
	})
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	o.Logger.Info("listening", "address", ln.Addr().String())
	return &Service{c, o, server, ln}, nil
}

// SetupToken is the file with the one-time token with which a fleet is claimed, in that data folder.
func SetupToken(dataDir string) string { return filepath.Join(dataDir, "setup-token") }

func (o *Options) publicURL() string {
	if o.Config == nil {
		return ""
	}
	return o.Config.PublicURL
}

// reload reads the settings anew; nil when nobody said how.
func (o *Options) reload() func(context.Context) (controller.Settings, error) {
	if o.LoadConfig == nil {
		return nil
	}
	return func(ctx context.Context) (controller.Settings, error) {
		rows, err := o.Database.Store.Settings(ctx)
		if err != nil {
			return controller.Settings{}, err
		}
		cfg, err := o.LoadConfig(rows)
		if err != nil {
			return controller.Settings{}, err
		}
		return controller.SettingsOf(cfg), nil
	}
}

// Address is where it listens.
func (s *Service) Address() string { return s.ln.Addr().String() }

// Run serves until ctx ends. Runners go on.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Controller.Run(ctx) })
	g.Go(func() error { return s.http(ctx) })
	g.Go(func() error {
		if err := serveLocal(ctx, LocalSocket(s.o.Dir), s.api.LocalHandler()); err != nil {
			s.o.Logger.Warn("the commands of this machine's owner cannot reach the controller", "err", err)
		}
		return nil
	})
	return g.Wait()
}

// shutdownGrace is what requests get to finish in when the controller ends.
const shutdownGrace = 5 * time.Second

// http answers until ctx ends, then lets requests finish for a moment.
func (s *Service) http(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.api.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.api.Close() // those who follow events come back by themselves
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			stopped <- srv.Close() // a long poll is still open
			return
		}
		stopped <- nil
	}()
	var err error
	if s.o.CertFile != "" {
		err = srv.ServeTLS(s.ln, s.o.CertFile, s.o.KeyFile)
	} else {
		err = srv.Serve(s.ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the HTTP server stopped: %w", err)
	}
	return <-stopped
}
