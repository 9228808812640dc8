package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Served says which operations have a handler.
func (s *Server) Served() map[string]bool { return s.served }

// Routes returns every route as "METHOD path".
func (s *Server) Routes() (routes []string) {
	_ = chi.Walk(s.router, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+path)
		return nil
	})
	return routes
}

// LoseCount does what a feed does that has lost events.
func (s *Server) LoseCount() { s.hub.restart() }

// Resting says whether no frames are made.
func (s *Server) Resting() bool { return s.hub.current() == nil }
