package controller

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// pathJoinTokens is the API's own, so that the command that asks for a token cannot tell this handler from the API's.
const pathJoinTokens = "/api/v1/join-tokens"

// maxJoinTTL bounds how long a join token may lie around.
const maxJoinTTL = 24 * time.Hour

// LocalHandler serves join tokens, as the API does, to the machine's owner. It goes once the API itself is served on the local socket.
func (c *Controller) LocalHandler() http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, middleware.RequestSize(4<<10))
	r.Post(pathJoinTokens, c.makeJoinToken)
	return r
}

func (c *Controller) makeJoinToken(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, detail string) {
		writeJSON(w, status, map[string]any{"status": status, "detail": detail})
	}
	var req struct {
		HostName string `json:"host_name"`
		TTL      string `json:"ttl"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(http.StatusBadRequest, "the request is not JSON with host_name and ttl")
		return
	}
	ttl, err := time.ParseDuration(req.TTL)
	if err != nil || ttl <= 0 || ttl > maxJoinTTL {
		refuse(http.StatusUnprocessableEntity, "the ttl must be a duration such as 1h, and 24h at most")
		return
	}
	if req.HostName == "" {
		refuse(http.StatusUnprocessableEntity, "a join token is for one host: give its name")
		return
	}
	token, err := c.NewJoinToken(r.Context(), req.HostName, false, ttl)
	if err != nil {
		c.log.Error("cannot make a join token", "host", req.HostName, "err", err)
		refuse(http.StatusInternalServerError, "the token could not be written")
		return
	}
	c.log.Info("made a join token", "host", req.HostName, "ttl", ttl)
	writeJSON(w, http.StatusCreated, map[string]any{"host_name": req.HostName, "token": token})
}
