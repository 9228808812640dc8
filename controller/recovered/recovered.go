// Package recovered keeps a fault of one HTTP request from the others. It must never log or answer what was sent.
package recovered

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Handler keeps a fault of one request from the others: it is logged, and answered 500 as a problem (RFC 9457). Neither says
// what was sent. A panic's value may quote it, and so may an address: the log gets the value's type, the route and the stack.
func Handler(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v) // how a handler ends a connection on purpose
				}
				log.Error("a request panicked", "method", r.Method, "route", routeOf(r), "panic", panicText(v), "stack", string(debug.Stack()))
				if ww.Status() != 0 {
					panic(http.ErrAbortHandler) // half an answer must not look like a whole one
				}
				writeFault(w)
			}()
			next.ServeHTTP(ww, r)
		})
	}
}

func routeOf(r *http.Request) string {
	if rc := chi.RouteContext(r.Context()); rc != nil {
		return rc.RoutePattern()
	}
	return ""
}

// panicText says what went wrong. The runtime's own errors name indices and types; any other value may hold anything.
func panicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}

func writeFault(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusInternalServerError)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client is gone: nothing to do
		"type": "about:blank", "title": http.StatusText(http.StatusInternalServerError), "status": http.StatusInternalServerError,
		"detail": "The controller could not carry out the request.", "fix": "Look in the controller's log for a request that panicked.",
	})
}
