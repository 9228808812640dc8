package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// Time limits of a listener. What waits on purpose (streams and long polls) sets its own deadlines, and bodies are bounded where they
// are read.
const (
	headerRead = 10 * time.Second
	idle       = 2 * time.Minute
	answering  = time.Minute
	// shutdownGrace is what requests get to finish in when the controller ends.
	shutdownGrace = 5 * time.Second
)

// serveUntil serves on ln until ctx ends. Streams and long polls end then at once, other requests get to finish for a moment.
func serveUntil(ctx context.Context, srv *http.Server, ln net.Listener, log *slog.Logger) error {
	srv.IdleTimeout, srv.WriteTimeout = idle, answering
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	srv.Handler = ending(ctx, srv.Handler)
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if err := srv.Shutdown(end); err != nil {
			stopped <- srv.Close() // a request still goes on
			return
		}
		stopped <- nil
	}()
	var err error
	if srv.TLSConfig != nil {
		err = srv.ServeTLS(ln, "", "")
	} else {
		err = srv.Serve(ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the HTTP server stopped: %w", err)
	}
	return <-stopped
}

// ending ends what may last for hours as soon as stop does.
func ending(stop context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !lasts(r) {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		cut := make(chan struct{})
		goOn := context.AfterFunc(stop, func() {
			defer close(cut)
			cancel()
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a log that is being sent; where there is no deadline, Close ends it
		})
		defer func() {
			if !goOn() {
				<-cut // w is the server's again once this handler has returned
			}
		}()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// lasts says whether a request is a stream or waits on purpose. A test holds it to the table of routes.
func lasts(r *http.Request) bool {
	p := r.URL.Path
	switch {
	case strings.HasPrefix(p, protocol.PathLogs):
		return true
	case r.Method != http.MethodGet:
		return false
	case p == protocol.PathTasks, p == "/api/v1/events":
		return true
	}
	return strings.HasPrefix(p, "/api/v1/runners/") && strings.HasSuffix(p, "/logs")
}
