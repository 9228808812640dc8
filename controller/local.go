package controller

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// PathJoinTokens is where a join token is asked for, on the local socket alone.
const PathJoinTokens = "/local/v1/join-tokens"

// JoinTokenRequest asks for a single-use join token for the host of that name.
type JoinTokenRequest struct {
	Host string `json:"host"`
	TTL  string `json:"ttl"` // a Go duration
}

// JoinTokenResponse carries the token, which is shown this once.
type JoinTokenResponse struct {
	Token string `json:"token"`
	Error string `json:"error,omitempty"`
}

// maxJoinTTL bounds how long a join token may lie around.
const maxJoinTTL = 24 * time.Hour

// LocalHandler serves what the machine's owner may do without signing in: whoever can open the socket that it is served on can read
// the database and its keys anyway.
func (c *Controller) LocalHandler() http.Handler {
	r := chi.NewRouter()
	r.Use(recovered(c.log), middleware.RequestSize(4<<10))
	r.Post(PathJoinTokens, c.makeJoinToken)
	return r
}

func (c *Controller) makeJoinToken(w http.ResponseWriter, r *http.Request) {
	var req JoinTokenRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		writeJSON(w, http.StatusBadRequest, JoinTokenResponse{Error: "the request is not JSON with host and ttl"})
		return
	}
	ttl, err := time.ParseDuration(req.TTL)
	if err != nil || ttl <= 0 || ttl > maxJoinTTL {
		writeJSON(w, http.StatusBadRequest, JoinTokenResponse{Error: "the ttl must be a duration such as 1h, and 24h at most"})
		return
	}
	if req.Host == "" {
		writeJSON(w, http.StatusBadRequest, JoinTokenResponse{Error: "a join token is for one host: give its name"})
		return
	}
	token, err := c.NewJoinToken(r.Context(), req.Host, false, ttl)
	if err != nil {
		c.log.Error("cannot make a join token", "host", req.Host, "err", err)
		writeJSON(w, http.StatusInternalServerError, JoinTokenResponse{Error: "the token could not be written"})
		return
	}
	c.log.Info("made a join token", "host", req.Host, "ttl", ttl)
	writeJSON(w, http.StatusOK, JoinTokenResponse{Token: token})
}
