package main

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// setupTokenFile is where an unclaimed fleet's setup token lies, for the machine's owner.
const setupTokenFile = "setup-token"

// apiHandlers are what the network and the local socket are served: the API, and behind it the controller's own routes.
func apiHandlers(ctx context.Context, cfg *config.Config, st *store.Store, ctrl *controller.Controller, log *slog.Logger) (network, local http.Handler, err error) {
	in := signin.New(signin.Options{Store: st, Logger: log})
	file := filepath.Join(cfg.DataDir, setupTokenFile)
	unclaimed, err := in.PrepareSetup(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	if unclaimed {
		log.Info("this fleet belongs to nobody yet: claim it with zoomies setup claim", "token_file", file)
	}
	rest := ctrl.Handler()
	s := api.New(api.Options{
		Store: st, Fleet: ctrl, SignIn: in, Version: version, Logger: log, Secure: cfg.TLS.CertFile != "", Rest: rest,
	})
	return except(s.Handler(), rest, "/metrics"), except(s.LocalHandler(), ctrl.LocalHandler(), "/local/"), nil
}

// except serves the paths that begin so elsewhere.
func except(h, other http.Handler, prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, prefix) {
			other.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
