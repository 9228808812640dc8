package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"

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
	// Config are the settings that it starts with, TLS among them; nil is the defaults.
	Config *config.Config
	// LoadConfig merges the settings' layers as a start would, over these rows of the database; nil never does.
	LoadConfig func(database map[string]string) (*config.Config, error)
	// Findings are what is questionable about Config.
	Findings []config.Finding
	// PublicMetrics shows the metrics to whoever asks.
	PublicMetrics bool
	Dir           string // the data folder: it holds the local socket, and the setup token of an unclaimed fleet
	Logger        *slog.Logger
	// Notices takes what the machine's owner has to read at a start, which is no log; nil drops it.
	Notices io.Writer
}

// Service is a controller with its listener, which Run serves.
type Service struct {
	*controller.Controller
	o   Options
	api *api.Server
	ln  net.Listener
	tls *tls.Config // nil for plain HTTP
}

// New makes the controller and listens. Close the database after Run, or when Run is not called.
func New(ctx context.Context, o Options) (*Service, error) {
	if o.Config == nil {
		o.Config = config.Default()
	}
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
		o.noticef("Nobody has claimed this fleet yet. To become its first user, run on this machine:\n  zoomies setup claim NAME\n"+
			"or elsewhere, with the one-time token in %s.\n", SetupToken(o.Dir))
	}
	proof, err := o.proof(ctx)
	if err != nil {
		return nil, err
	}
	proxies, err := o.Config.Proxies()
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	server := api.New(api.Options{
		Store: st, Fleet: c, SignIn: in, Version: o.Version, Logger: o.Logger, PublicURL: o.Config.PublicURL, PublicMetrics: o.PublicMetrics,
		Secure: proof.conf != nil || strings.HasPrefix(o.Config.PublicURL, "https:"), // a proxy may end TLS
		CAPin:  proof.pin, AgentURL: o.agentURL(ln.Addr(), proof.conf != nil), TrustedProxies: proxies,
		Running: o.Config, LoadSettings: o.LoadConfig, Rest: c.Handler(),
	})
	o.Logger.Info("listening", "address", ln.Addr().String(), "tls", proof.conf != nil)
	return &Service{c, o, server, ln, proof.conf}, nil
}

// SetupToken is the file with the one-time token with which a fleet is claimed, in that data folder.
func SetupToken(dataDir string) string { return filepath.Join(dataDir, "setup-token") }

func (o *Options) noticef(format string, args ...any) {
	if o.Notices != nil {
		_, _ = fmt.Fprintf(o.Notices, format, args...) // nobody reads it: nothing to do
	}
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
	context.AfterFunc(ctx, s.api.Close) // those who follow events come back by themselves
	g.Go(func() error { return s.Controller.Run(ctx) })
	g.Go(func() error {
		return serveUntil(ctx, &http.Server{Handler: s.api.Handler(), TLSConfig: s.tls, ReadHeaderTimeout: headerRead}, s.ln, s.o.Logger)
	})
	g.Go(func() error {
		if err := serveLocal(ctx, LocalSocket(s.o.Dir), s.api.LocalHandler(), s.o.Logger); err != nil {
			s.o.Logger.Warn("the commands of this machine's owner cannot reach the controller", "err", err)
		}
		return nil
	})
	return g.Wait()
}
