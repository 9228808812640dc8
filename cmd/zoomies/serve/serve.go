package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/controller"
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
	// CertFile and KeyFile are PEM files to serve TLS with; "" serves plain HTTP.
	CertFile, KeyFile string
	LocalSocket       string // see LocalSocket
	Logger            *slog.Logger
}

// Service is a controller with its listener, which Run serves.
type Service struct {
	*controller.Controller
	o  Options
	ln net.Listener
}

// New makes the controller and listens. Close the database after Run, or when Run is not called.
func New(ctx context.Context, o Options) (*Service, error) {
	c, err := controller.New(ctx, controller.Options{
		Store: o.Database.Store, Settings: o.Settings, Holder: o.Database.Holder, GitHub: o.GitHub, Version: o.Version, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	o.Logger.Info("listening", "address", ln.Addr().String())
	return &Service{c, o, ln}, nil
}

// Address is where it listens.
func (s *Service) Address() string { return s.ln.Addr().String() }

// Run serves until ctx ends. Runners go on.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Controller.Run(ctx) })
	g.Go(func() error { return s.http(ctx) })
	g.Go(func() error {
		if err := serveLocal(ctx, s.o.LocalSocket, s.LocalHandler()); err != nil {
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
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
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
