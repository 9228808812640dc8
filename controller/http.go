package controller

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/recovered"
)

const (
	webhooksAtOnce = 64
	webhookBacklog = 1024
	webhookRead    = 10 * time.Second // for the whole body; GitHub itself gives a delivery no longer
)

// Handler serves the controller's routes: health, metrics, webhooks and the agent API.
func (c *Controller) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(recovered.Handler(c.log))
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": c.version})
	})
	r.Get("/readyz", c.ready)
	r.Handle("/metrics", c.metricsHandler())
	// Bodies are read before their signature can be verified: in bounded time, and only so many at once.
	r.With(middleware.ThrottleBacklog(webhooksAtOnce, webhookBacklog, webhookRead)).Post("/webhooks/github", c.webhook)
	agents := protocol.Handler(c.Agents())
	r.With(boundedBody).Handle("/api/v1/agent/*", agents)
	return r
}

// agentRead is how long an agent may take to send a request, which is 1 MiB at most.
const agentRead = 30 * time.Second

// boundedBody bounds the reading of a body that arrives before its sender is known. Polls have none and wait long, and logs are
// streams; both are known by then.
func boundedBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && !strings.HasPrefix(r.URL.Path, protocol.PathLogs) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(agentRead)) // where the connection has none, there is nothing to bound
		}
		next.ServeHTTP(w, r)
	})
}

// ready answers 200 when the store answers and nothing stands in the way of scheduling, else 503 with the reason.
func (c *Controller) ready(w http.ResponseWriter, r *http.Request) {
	if _, err := c.store.Settings(r.Context()); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "the store does not answer"})
		return
	}
	for _, p := range c.Problems() {
		if p.Code == problems.LeaseLost {
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": p.Title, "code": p.Code})
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"status": "ready", "problems": len(c.Problems())})
}

// metricsHandler sets the gauges that are read when asked for, and then shows all metrics, one scrape at a time.
func (c *Controller) metricsHandler() http.Handler {
	h := promhttp.HandlerFor(c.metrics.Registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.scrapeMu.Lock()
		defer c.scrapeMu.Unlock()
		c.metrics.Reset(metrics.Problems)
		for _, p := range c.Problems() {
			c.metrics.Add(metrics.Problems, 1, p.Code.String())
		}
		ins, err := c.store.Installations(r.Context())
		if err != nil {
			c.log.Error("cannot read the installations for the metrics", "err", err)
		}
		c.metrics.Reset(metrics.GitHubHeld)
		for _, in := range ins {
			c.metrics.Set(metrics.GitHubHeld, max(0, in.HoldUntil.Sub(c.now()).Seconds()), in.Name)
		}
		h.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nothing to do
}
