package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/recovered"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// maxBody bounds the body of a request to the API, in bytes.
const maxBody = 1 << 20

// bodyRead is how long a client may take to send one.
const bodyRead = 30 * time.Second

// wrap puts around the routes what holds for all of them. Agents and webhooks prove themselves below, and have limits of their own.
func (s *Server) wrap(routes http.Handler) http.Handler {
	limit := s.limits.handlers(s)
	csrf := http.NewCrossOriginProtection()
	csrf.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem(http.StatusForbidden, "A page of another site sent this request in your name.",
			"Use the fleet's own pages, or an API token."))
	}))
	api := chi.Chain(
		middleware.Compress(5, "application/json", "application/problem+json", "application/openapi+json", "application/openapi+yaml"),
		csrf.Handler, s.identify, limit.clients, s.idempotent, s.tagged,
	).Handler(routes)
	agents := limit.hosts(routes)
	return recovered.Handler(s.log)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{id: store.NewID("req_"), address: s.addressOf(r)}))
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		if s.secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/agent/"):
			agents.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/webhooks/"):
			routes.ServeHTTP(w, r)
		default:
			if r.Method != http.MethodGet {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyRead)) // where the connection has none, there is nothing to bound
			}
			h.Set("Cache-Control", "no-store, no-cache")
			h.Set("X-Request-Id", requestOf(r.Context()).id)
			api.ServeHTTP(w, r)
		}
	}))
}

const (
	sessionCookie       = "zoomies_session"
	secureSessionCookie = "__Host-" + sessionCookie // which browsers take over TLS alone, from this host alone
)

func (s *Server) cookieName() string {
	if s.secure {
		return secureSessionCookie
	}
	return sessionCookie
}

// identify finds out who makes the request. A credential that is not good is refused, also where none is needed: whoever sends one
// believes that it is.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principal(r.Context()).Kind == auth.KindLocal {
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.who(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, who)))
		case errors.Is(err, signin.ErrCredential):
			if _, cerr := r.Cookie(s.cookieName()); cerr == nil {
				http.SetCookie(w, s.cookie("", -1))
			}
			s.writeProblem(w, r, problem(http.StatusUnauthorized, sentence(err), "Sign in again, or make another API token."))
		default:
			s.writeProblem(w, r, s.fail(r.Context(), auth.Guard{ID: "identify"}, err))
		}
	})
}

// credentials are how a credential is checked.
type credentials struct {
	token, session func(context.Context, string) (auth.Principal, error)
}

// who is the principal of the request's credential: an API token before a session.
func (s *Server) who(r *http.Request) (auth.Principal, error) {
	return s.whoBy(r, credentials{s.signin.Token, s.signin.Session})
}

// stillWho is who, asked again while the request is still being answered.
func (s *Server) stillWho(r *http.Request) (auth.Principal, error) {
	if who := principal(r.Context()); who.Kind == auth.KindLocal {
		return who, nil
	}
	return s.whoBy(r, credentials{s.signin.StillToken, s.signin.StillSession})
}

func (s *Server) whoBy(r *http.Request, check credentials) (auth.Principal, error) {
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, token, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return auth.Principal{}, signin.ErrCredential
		}
		return check.token(r.Context(), strings.TrimSpace(token))
	}
	if c, err := r.Cookie(s.cookieName()); err == nil && !beginsSession(r) {
		return check.session(r.Context(), c.Value)
	}
	return auth.Principal{}, nil
}

// beginsSession says that the request asks for a session: one that is over must not stand in its way.
func beginsSession(r *http.Request) bool {
	return r.Method == http.MethodPost && (r.URL.Path == mustFind("sign-in").Path || r.URL.Path == mustFind("claim-fleet").Path)
}

// cookie is the session's cookie: no script reads it, and no other site sends it along.
func (s *Server) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where browsers come over TLS
		Name: s.cookieName(), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	}
}
