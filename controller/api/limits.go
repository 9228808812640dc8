package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/httprate"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// Limits are the budgets of requests a minute. Whoever spends theirs is shed with 429 and told when to come back; nobody else
// notices. Zero is the default.
type Limits struct {
	Client  int // of one user, or of one API token
	Address int // of one address, for what is asked without signing in
	Host    int // of one agent
}

func (l Limits) orDefault() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Client, 3000}, {&l.Address, 300}, {&l.Host, 1200}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}

const budgetWindow = time.Minute

type limiters struct {
	clients, hosts func(http.Handler) http.Handler
}

func (l Limits) handlers(s *Server) limiters {
	shed := httprate.WithLimitHandler(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem(http.StatusTooManyRequests, "You have spent your budget of requests for now.",
			"Wait as long as Retry-After says."))
	})
	by := func(limit int, key func(*http.Request) string) func(http.Handler) http.Handler {
		return httprate.LimitBy(limit, budgetWindow, func(r *http.Request) (string, error) { return key(r), nil }, shed)
	}
	known := by(l.Client, func(r *http.Request) string { return principal(r.Context()).ID })
	strangers := by(l.Address, func(r *http.Request) string { return requestOf(r.Context()).address })
	return limiters{
		clients: func(next http.Handler) http.Handler {
			signedIn, open := known(next), strangers(next)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch who := principal(r.Context()); {
				case who.Kind == auth.KindLocal:
					next.ServeHTTP(w, r)
				case who.SignedIn():
					signedIn.ServeHTTP(w, r)
				default:
					open.ServeHTTP(w, r)
				}
			})
		},
		hosts: by(l.Host, hostKey),
	}
}

// hostKey tells agents apart by their token, and those without one by their address.
func hostKey(r *http.Request) string {
	if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); token != "" {
		return auth.HashToken(token)
	}
	return requestOf(r.Context()).address
}
